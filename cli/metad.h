/* `kist metad`: one node of the metadata service as a process. */
#ifndef CLI_METAD_H
#define CLI_METAD_H

int metad_main(int argc, char *const *argv);

#endif
