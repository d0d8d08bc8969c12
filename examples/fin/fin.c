/* Heat that a tapered fin gives off, by finite volumes. Usage: fin DECK
 *
 * The temperature T(x) above the air's solves  d/dx( k A(x) dT/dx ) = h P T,  with T(0) given and no flow at the tip.
 * The deck has a keyword and a number in each line, and END in the last; the report goes to stdout.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CELLS 100000

static const double CONDUCTIVITY = 200.0;  /* W/(m K), aluminium */
static const double TRANSFER = 50.0;       /* W/(m2 K), a fan */
static const double WIDTH = 0.1;           /* m */
static const double BASE = 60.0;           /* K above the air */
static const double DENSITY = 2700.0;      /* kg/m3 */
static const double PRICE = 300.0;         /* W/kg, the penalty on mass */

static double length, thickness, taper;
static int cells;

static void stop(const char *what) {
    fprintf(stderr, "fin: %s\n", what);
    exit(1);
}

static void read_deck(const char *path) {
    char key[81];
    double number;
    FILE *deck = fopen(path, "r");
    if (deck == NULL) stop("cannot open the deck");
    while (fscanf(deck, "%80s", key) == 1 && strcmp(key, "END") != 0) {
        if (fscanf(deck, "%lf", &number) != 1) stop("a keyword without a number");
        if (strcmp(key, "LENGTH") == 0) length = number;
        else if (strcmp(key, "THICKNESS") == 0) thickness = number;
        else if (strcmp(key, "TAPER") == 0) taper = number;
        else if (strcmp(key, "CELLS") == 0) cells = (int)number;
        else stop("an unknown keyword");
    }
    fclose(deck);
    if (length <= 0 || thickness <= 0 || taper < 0 || taper >= 1) stop("an impossible fin");
    if (cells < 1 || cells > MOST_CELLS) stop("an impossible number of cells");
}

static double conductance(double x) {  /* k A(x) */
    return CONDUCTIVITY * WIDTH * thickness * (1 - taper * x / length);
}

/* The heat through the base: tridiagonal equations of the cells, solved from the tip to the base. */
static double heat(void) {
    double step = length / cells, loss = TRANSFER * 2 * WIDTH * step;
    double ratio = 0;  /* flow into the cells beyond, per kelvin of the cell before them */
    for (int cell = cells - 1; cell >= 0; cell--) {
        double half = cell == 0 ? 0.5 : 1.0;  /* the base is half a cell away */
        double link = conductance(cell * step) / (half * step);
        double leaving = loss + ratio;
        ratio = link * leaving / (link + leaving);
    }
    return ratio * BASE;
}

int main(int count, char **arguments) {
    if (count != 2) stop("usage: fin DECK");
    read_deck(arguments[1]);
    double flow = heat(), mass = DENSITY * WIDTH * thickness * length * (1 - taper / 2);
    printf(" FIN ANALYSIS, %d CELLS\n", cells);
    printf(" HEAT FLOW       (W) = %14.6E\n", flow);
    printf(" MASS           (KG) = %14.6E\n", mass);
    printf(" NET BENEFIT     (W) = %14.6E\n", flow - PRICE * mass);
    return 0;
}
