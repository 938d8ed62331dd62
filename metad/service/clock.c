/*
 * May a command be stamped by this process's clock? Set by who compares it with the other voters'
 * (metad/cluster). A check is worth CHECK_LIVES_NS, and only as long as the wall clock moved with
 * the monotonic one: after a jump the next check decides. Without a valid check a stamp may be at
 * most JUMP_NS ahead of the newest one.
 */
#include "metad/service/service_private.h"

static const uint64_t CHECK_LIVES_NS = 3ULL * 1000000000ULL;
static const uint64_t JUMP_NS = 10ULL * 1000000000ULL;
static const uint64_t DRIFT_NS = 500ULL * 1000000ULL;

void service_set_clock(struct service *service, enum service_clock clock)
{
    bool wakes = clock == SERVICE_CLOCK_GOOD && service->clock != clock;

    service->clock = clock;
    service->clock_mono_ns = service->env->clock->mono_ns(service->env);
    service->clock_wall_ns = service->env->clock->wall_ns(service->env);
    if (wakes && leader_load(service) != NULL) {
        write_leader_changed(service);
    }
}

bool service_clock_allows(const struct service *service, const struct leader *leader,
                          uint64_t wall_ns)
{
    uint64_t passed_ns;
    uint64_t expected_ns;

    if (service->clock == SERVICE_CLOCK_FREE) {
        return true;
    }
    passed_ns = service->env->clock->mono_ns(service->env) - service->clock_mono_ns;
    expected_ns = service->clock_wall_ns + passed_ns;
    if (service->clock == SERVICE_CLOCK_OFF || wall_ns > expected_ns + DRIFT_NS ||
        wall_ns + DRIFT_NS < expected_ns) {
        return false;
    }
    return (service->clock == SERVICE_CLOCK_GOOD && passed_ns <= CHECK_LIVES_NS) ||
           wall_ns <= machine_last_stamp(leader->machine) + JUMP_NS;
}
