/* `kist admin cluster ...` and `kist admin metad ...`: speak to metads with the cluster key. */
#ifndef CLI_ADMIN_CLUSTER_H
#define CLI_ADMIN_CLUSTER_H

#include <stdio.h>

/* argv from "cluster" or "metad" on. Return the exit code. */
int admin_cluster_main(int argc, char *const *argv);
void admin_cluster_usage(FILE *to);

#endif
