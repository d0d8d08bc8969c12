"""The stack of networks of DNN-MFBO, one per fidelity, each fed with x and the output of the one below, eq. (3) mf-dnn.

The paper's: `architecture` (dense networks) and `variational` (learned by Adam, propagated by quadrature). Ours:
`priors` (parameters of a layer), `features` (random-feature networks), `closed_form` (how they are learned) and
`linearised` (the joint posterior).
"""
