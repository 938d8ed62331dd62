/* `kist docs`: texts made from the tables of options and metrics. */
#ifndef CLI_DOCS_H
#define CLI_DOCS_H

/* argv after "docs": sample, page, man, metrics, compatibility print one; "write" writes all of
 * them where they belong below the current directory, "check" compares. Returns the exit code. */
int docs_main(int argc, char *const *argv);

#endif
