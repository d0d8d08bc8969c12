# The price of pumping water through parallel pipes, in euros: awk -v diameter=0.2 -v pipes=2 -v fidelity=colebrook -f pipe.awk
function colebrook(reynolds, roughness,    root, step) {
    root = 7
    for (step = 0; step < 60; step++)  # 1/sqrt(f) = -2 log10( e/(3.7 D) + 2.51/(Re sqrt(f)) )
        root = -2 / log(10) * log(roughness / 3.7 + 2.51 * root / reynolds)
    return 1 / root ^ 2
}
BEGIN {
    pi = atan2(0, -1); flow = 0.05; length_ = 1000; viscosity = 1e-6
    velocity = flow / pipes / (pi / 4 * diameter ^ 2)
    reynolds = velocity * diameter / viscosity
    friction = fidelity == "blasius" ? 0.3164 / reynolds ^ 0.25 : colebrook(reynolds, 5e-5 / diameter)
    pressure = friction * length_ / diameter * 500 * velocity ^ 2
    printf "%.10g\n", pipes * 60000 * diameter ^ 1.3 + 0.15 * 10 * 8.76 * flow * pressure / 0.7
}
