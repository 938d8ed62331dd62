/* `kist`: picks the command. */
#include <stdio.h>
#include <string.h>

#include "cli/admin/admin.h"
#include "cli/docs.h"
#include "cli/metad.h"
#include "cli/serve.h"

static int usage(FILE *to, int code)
{
    (void)fprintf(
        to,
        "kist %s: an S3-compatible object store\n\n"
        "  kist serve --data DIR        everything in one process; kist serve --help lists the "
        "options\n"
        "  kist metad --data DIR        one node of the metadata of a cluster; kist metad --help\n"
        "  kist admin --help            users, keys, buckets and jobs of a running kist; clusters\n"
        "  kist docs NAME               sample, page, man or metrics, made from the tables\n"
        "  kist version\n",
        KIST_VERSION);
    return code;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "serve") == 0) {
        return serve_main(argc - 2, argv + 2);
    }
    if (strcmp(command, "metad") == 0) {
        return metad_main(argc - 2, argv + 2);
    }
    if (strcmp(command, "admin") == 0) {
        return admin_main(argc - 2, argv + 2);
    }
    if (strcmp(command, "docs") == 0) {
        return docs_main(argc - 2, argv + 2);
    }
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        (void)printf("kist %s\n", KIST_VERSION);
        return 0;
    }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0) {
        return usage(stdout, 0);
    }
    if (command[0] != '\0') {
        (void)fprintf(stderr, "kist: unknown command '%s'; see kist --help\n", command);
        return 2;
    }
    return usage(stderr, 2);
}
