/* `kist admin segment`: offline, needs no keys. */
#ifndef CLI_ADMIN_SEGMENT_H
#define CLI_ADMIN_SEGMENT_H

/* argv after "segment". Returns the exit code. */
int admin_segment_main(int argc, char *const *argv);

#endif
