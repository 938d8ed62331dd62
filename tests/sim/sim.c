/*
 * kist_sim: runs worlds, one process per seed.
 *
 *     kist_sim [--seeds N] [--start S] [--world NAME] [--jobs N] [--verbose]
 *
 * A failure prints world, seed and commit; the same seed at the same commit fails again. The last
 * line is `N passed, N failed`; the exit status is 1 when any failed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/sim/world.h"

enum {
    SIM_RUN_TIMEOUT_S = 120,
    SIM_JOBS_MAX = 16,
    SIM_COUNTS_MAX = 32,
    SIM_TAIL_BYTES = 3000 /* of what a failed run has printed */
};

bool world_verbose;

/* Programs that crash leave their memory behind. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct {
    const char *what;
    uint64_t count;
} counts[SIM_COUNTS_MAX];

struct sim_options {
    uint64_t seeds;
    uint64_t start;
    const char *world;
    unsigned jobs;
};

/* One run under way. */
struct sim_run {
    pid_t pid; /* 0: free */
    const struct world *world;
    uint64_t seed;
    int output; /* what it prints goes here, and is shown when it fails; -1: straight to stderr */
};

struct sim_runner {
    struct sim_run runs[SIM_JOBS_MAX];
    unsigned running;
    unsigned passed;
    unsigned failed;
};

void world_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    (void)fflush(stderr);
    _exit(1);
}

void world_trace(struct sim *sim, const char *format, ...)
{
    va_list args;

    if (!world_verbose) {
        return;
    }
    (void)fprintf(stderr, "%10.6f ", (double)sim_now(sim) / 1e9);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

void world_count_up(const char *what, uint64_t by)
{
    for (unsigned i = 0; i < SIM_COUNTS_MAX; i++) {
        if (counts[i].what == NULL || strcmp(counts[i].what, what) == 0) {
            counts[i].what = what;
            counts[i].count += by;
            return;
        }
    }
}

static void counts_print(void)
{
    for (unsigned i = 0; i < SIM_COUNTS_MAX && counts[i].what != NULL; i++) {
        (void)fprintf(stderr, "%s %llu%s", counts[i].what, (unsigned long long)counts[i].count,
                      i + 1 < SIM_COUNTS_MAX && counts[i + 1].what != NULL ? ", " : "\n");
    }
}

/* ---- Processes ---- */

static void print_commit(void)
{
    char line[64] = "unknown";
    FILE *git = popen("git rev-parse --short HEAD 2>/dev/null", "r");

    if (git != NULL) {
        if (fgets(line, sizeof(line), git) == NULL) {
            (void)snprintf(line, sizeof(line), "unknown");
        }
        (void)pclose(git);
    }
    line[strcspn(line, "\n")] = '\0';
    (void)fprintf(stderr, "commit %s\n", line);
}

/* The end of what the run has printed. */
static void run_show(const struct sim_run *run)
{
    char tail[SIM_TAIL_BYTES + 1];
    off_t size;
    ssize_t len;

    if (run->output < 0) {
        return;
    }
    size = lseek(run->output, 0, SEEK_END);
    len =
        pread(run->output, tail, SIM_TAIL_BYTES, size > SIM_TAIL_BYTES ? size - SIM_TAIL_BYTES : 0);
    if (len > 0) {
        tail[len] = '\0';
        (void)fputs(tail, stderr);
    }
}

static void run_end(struct sim_run *run)
{
    if (run->output >= 0) {
        (void)close(run->output);
    }
    run->pid = 0;
}

static void runner_wait(struct sim_runner *runner)
{
    int status = 0;
    pid_t pid = waitpid(-1, &status, 0);

    if (pid < 0) {
        ASSERT(errno == EINTR);
        return;
    }
    for (unsigned i = 0; i < SIM_JOBS_MAX; i++) {
        struct sim_run *run = &runner->runs[i];

        if (run->pid != pid) {
            continue;
        }
        runner->running -= 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            runner->passed += 1;
            run_end(run);
            return;
        }
        runner->failed += 1;
        run_show(run);
        run_end(run);
        (void)fprintf(stderr, "FAILED: kist_sim --world %s --start %llu --seeds 1  (%s %d)  ",
                      run->world->name, (unsigned long long)run->seed,
                      WIFSIGNALED(status) ? "signal" : "status",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        print_commit();
    }
}

static void runner_start(struct sim_runner *runner, const struct sim_options *options,
                         const struct world *world, uint64_t seed)
{
    struct sim_run *run = runner->runs;
    pid_t pid;
    int output;

    while (runner->running >= options->jobs) {
        runner_wait(runner);
    }
    while (run->pid != 0) {
        run += 1;
    }
    (void)fflush(NULL);
    output = world_verbose ? -1 : memfd_create("kist_sim", MFD_CLOEXEC);
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        if (output >= 0) {
            (void)dup2(output, STDERR_FILENO);
        }
        (void)alarm(SIM_RUN_TIMEOUT_S); /* a run that does not end is a failure too */
        world->run(seed);
        if (world_verbose) {
            counts_print();
        }
        (void)fflush(NULL);
        _exit(0);
    }
    *run = (struct sim_run){.pid = pid, .world = world, .seed = seed, .output = output};
    runner->running += 1;
}

/* Does this world run under seed number `n` of the ones asked for? */
static bool world_wants(const struct sim_options *options, const struct world *world, uint64_t n)
{
    if (options->world != NULL) {
        return strcmp(options->world, world->name) == 0;
    }
    return world->seeds_per_100 == 0 ? n == 0 : n % 100 < world->seeds_per_100;
}

/* ---- Options ---- */

static uint64_t option_number(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "not a number: %s\n", text);
        exit(2);
    }
    return value;
}

static void options_parse(struct sim_options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--verbose") == 0) {
            world_verbose = true;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options->seeds = option_number(value);
            i += 1;
        } else if (strcmp(argv[i], "--start") == 0) {
            options->start = option_number(value);
            i += 1;
        } else if (strcmp(argv[i], "--jobs") == 0) {
            options->jobs = (unsigned)option_number(value);
            i += 1;
        } else if (strcmp(argv[i], "--world") == 0) {
            options->world = value;
            i += 1;
        } else {
            (void)fprintf(stderr, "usage: kist_sim [--seeds N] [--start S] [--world NAME] "
                                  "[--jobs N] [--verbose]\nworlds:");
            for (unsigned w = 0; w < world_count; w++) {
                (void)fprintf(stderr, " %s", worlds[w].name);
            }
            (void)fputc('\n', stderr);
            exit(2);
        }
    }
    if (options->jobs < 1 || options->jobs > SIM_JOBS_MAX) {
        options->jobs = 2;
    }
}

int main(int argc, char **argv)
{
    struct sim_options options = {.seeds = 100, .start = 1, .jobs = 2};
    struct sim_runner runner = {.running = 0};

    options_parse(&options, argc, argv);
    for (uint64_t n = 0; n < options.seeds; n++) {
        for (unsigned w = 0; w < world_count; w++) {
            if (world_wants(&options, &worlds[w], n)) {
                runner_start(&runner, &options, &worlds[w], options.start + n);
            }
        }
    }
    while (runner.running > 0) {
        runner_wait(&runner);
    }
    if (runner.passed + runner.failed == 0) {
        (void)fprintf(stderr, "no such world\n");
        return 2;
    }
    printf("%u passed, %u failed\n", runner.passed, runner.failed);
    return runner.failed == 0 ? 0 : 1;
}
