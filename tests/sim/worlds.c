/* The table of worlds, with their share of the seeds. */
#include "common/base/assert.h"
#include "tests/sim/world.h"

const struct world worlds[] = {
    {"raft",                       world_raft,                 100},
    {"metad",                      world_metad,                100},
    {"datad",                      world_datad,                50 },
    {"scenario_put_boundaries",    scenario_put_boundaries,    2  },
    {"scenario_install_cut_twice", scenario_install_cut_twice, 10 },
};

const unsigned world_count = ARRAY_LEN(worlds);
