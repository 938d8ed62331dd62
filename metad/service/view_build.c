/*
 * Views: snapshots of root's rows, rebuilt when they changed, given to every loop (DESIGN 4.5).
 *
 *     a replica applied a change -> scan in a work job -> view_new -> a post to every loop
 *     refresh: all that were asked before a round begins share it: read index -> scan -> answer
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/service/service_private.h"
#include "proto/record.pb-c.h"

enum { DISK_HEALTHY = 1 };

static void view_pump(struct service *service);
static void refresh_pump(struct service *service);

/* ---- The scan, on a work thread ---- */

struct row_list {
    void **rows;
    size_t count;
    size_t max;
};

static void row_add(struct row_list *list, void *row)
{
    if (list->count == list->max) {
        list->max = list->max == 0 ? 64 : list->max * 2;
        list->rows = mem_realloc(list->rows, list->max * sizeof(void *));
    }
    list->rows[list->count++] = row;
}

/* Every row of one kind; the messages are from the default allocator, as view_new() wants them. */
static enum rc scan_kind(struct read_context *read, enum row_kind kind,
                         const ProtobufCMessageDescriptor *type, struct row_list *list)
{
    struct row_key prefix;
    struct read_walk walk;
    enum rc rc = RC_OK;

    key_range(&prefix, RANGE_ROOT, kind, SLICE_EMPTY);
    read_walk_open(&walk, read, FAMILY_ROWS, &prefix, &prefix, false);
    while (rc == RC_OK && read_walk_valid(&walk)) {
        struct slice value = read_walk_value(&walk);
        ProtobufCMessage *row =
            protobuf_c_message_unpack(type, NULL, value.len, (const uint8_t *)value.data);

        if (row == NULL) {
            rc = read_corrupt(read, "a row of root");
        } else {
            row_add(list, row);
            (void)read_walk_next(&walk);
        }
    }
    if (rc == RC_OK) {
        rc = read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}

static void rows_free(struct row_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        protobuf_c_message_free_unpacked(list->rows[i], NULL);
    }
    mem_free(list->rows);
}

static struct view_disk *disks_of(const struct row_list *list)
{
    struct view_disk *disks = mem_alloc(list->count * sizeof(*disks) + 1);

    for (size_t i = 0; i < list->count; i++) {
        const Kist__Disk *disk = list->rows[i];

        disks[i] = (struct view_disk){.id = disk->id, .healthy = disk->state == DISK_HEALTHY};
    }
    return disks;
}

static struct view *view_of(uint64_t version, struct row_list lists[5])
{
    struct view_parts parts = {
        .version = version,
        .buckets = (Kist__Bucket **)lists[0].rows,
        .bucket_count = lists[0].count,
        .users = (Kist__User **)lists[1].rows,
        .user_count = lists[1].count,
        .keys = (Kist__AccessKey **)lists[2].rows,
        .key_count = lists[2].count,
        .groups = (Kist__PlacementGroup **)lists[3].rows,
        .group_count = lists[3].count,
        .disks = disks_of(&lists[4]),
        .disk_count = lists[4].count,
    };
    struct view *view = view_new(&parts);

    mem_free(parts.disks);
    for (size_t i = 0; i < 4; i++) {
        mem_free(lists[i].rows);
    }
    rows_free(&lists[4]);
    return view;
}

static void build_run(struct env_work *work)
{
    static const struct {
        enum row_kind kind;
        const ProtobufCMessageDescriptor *type;
    } kinds[5] = {
        {KIND_BUCKET,     &kist__bucket__descriptor         },
        {KIND_USER,       &kist__user__descriptor           },
        {KIND_ACCESS_KEY, &kist__access_key__descriptor     },
        {KIND_GROUP,      &kist__placement_group__descriptor},
        {KIND_DISK,       &kist__disk__descriptor           }
    };
    struct service *service = CONTAINER_OF(work, struct service, build);
    struct read_context read = {.store = service->build_store};
    struct row_list lists[5] = {{.count = 0}};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < 5; i++) {
        rc = scan_kind(&read, kinds[i].kind, kinds[i].type, &lists[i]);
    }
    if (rc == RC_OK) {
        service->built = view_of(service->build_version, lists);
        return;
    }
    for (size_t i = 0; i < 5; i++) {
        rows_free(&lists[i]);
    }
    service->build_error = read.error;
    service->build_error.rc = rc;
}

/* ---- Publishing ---- */

static void refresh_answer_post(struct env_post *post)
{
    struct read_request *request = CONTAINER_OF(post, struct read_request, post);
    struct local_client *client = request->client;
    struct task *task = request->task;
    enum rc rc = request->rc;

    if (request->view != NULL) {
        client_set_view(client, request->view);
    }
    mem_free(request);
    task_resume(task, rc);
}

static void refresh_answer(struct service *service, struct read_request *request, enum rc rc)
{
    list_remove(&request->link);
    request->rc = rc;
    request->view = rc == RC_OK ? view_ref(service->view) : NULL;
    request->post.run = refresh_answer_post;
    request->client->env->post(request->client->env, &request->post);
}

static void refresh_end(struct service *service, enum rc rc)
{
    while (!list_empty(&service->refreshing)) {
        refresh_answer(service, CONTAINER_OF(service->refreshing.next, struct read_request, link),
                       rc);
    }
}

static void view_publish(struct service *service)
{
    if (service->view != NULL) {
        view_unref(service->view);
    }
    service->view = service->built;
    service->built = NULL;
    for (struct local_client *client = service->clients; client != NULL; client = client->next) {
        client_offer_view(client, service->view);
    }
}

/* ---- Building ---- */

/* Does the view hold all that the leader's state holds? */
static bool view_current(const struct service *service)
{
    const struct leader *leader = leader_load(service);

    return service->view != NULL && leader != NULL &&
           view_version(service->view) >= machine_root_index(leader->machine);
}

static void build_done(struct env_work *work)
{
    struct service *service = CONTAINER_OF(work, struct service, build);
    bool good = service->built != NULL;

    store_unref(service->build_store);
    service->building = false;
    if (service->closing) {
        if (good) {
            view_unref(service->built);
        }
        service_close_go_on(service);
        return;
    }
    if (good) {
        view_publish(service);
    } else {
        LOG_ERROR("view_build_failed", "error=\"%s\"", service->build_error.text);
    }
    if (!service->refresh_asking && !list_empty(&service->refreshing)) {
        if (!good) {
            refresh_end(service, RC_IO);
        } else if (view_current(service)) {
            refresh_end(service, RC_OK);
        }
    }
    refresh_pump(service);
    if (good) {
        view_pump(service);
    }
}

static void view_pump(struct service *service)
{
    const struct leader *leader = leader_load(service);

    if (service->building || service->closing || leader == NULL || view_current(service)) {
        return;
    }
    service->building = true;
    service->build_version = machine_root_index(leader->machine);
    service->build_store = machine_store(leader->machine);
    service->build_error = (struct error){.rc = RC_OK};
    service->build.run = build_run;
    service->build.done = build_done;
    service->env->worker->submit(service->env, NULL, &service->build);
}

void view_root_post(struct env_post *post)
{
    struct service *service = CONTAINER_OF(post, struct service, root_post);

    atomic_store(&service->root_posted, false);
    if (service->closing) {
        service_close_go_on(service);
        return;
    }
    view_pump(service); /* a replica that is behind the leader brings no news */
}

/* They wait for the next leader, in front of those that came later. */
static void refresh_put_back(struct service *service)
{
    while (!list_empty(&service->refreshing)) {
        struct list *last = service->refreshing.prev;

        list_remove(last);
        list_push_front(&service->refreshes, last);
    }
}

void view_leader_changed(struct service *service)
{
    if (!service->refresh_asking && !service->building) {
        refresh_put_back(service);
    }
    view_pump(service);
    refresh_pump(service);
}

/* ---- Refreshes ---- */

static void refresh_indexed(struct replica_read *index)
{
    struct service *service = CONTAINER_OF(index, struct service, refresh_index);

    service->refresh_asking = false;
    if (index->rc != RC_OK) {
        refresh_put_back(service);
        service_tick_start(service);
        return;
    }
    if (view_current(service)) {
        refresh_end(service, RC_OK);
        refresh_pump(service);
    } else {
        view_pump(service);
    }
}

/* Begins the next round, with all that wait for one. */
static void refresh_pump(struct service *service)
{
    struct leader *leader = leader_load(service);

    if (leader == NULL || service->refresh_asking || list_empty(&service->refreshes) ||
        !list_empty(&service->refreshing)) {
        return;
    }
    while (!list_empty(&service->refreshes)) {
        list_push_back(&service->refreshing, list_pop_front(&service->refreshes));
    }
    if (!leader->reads_only) {
        service->refresh_asking = true;
        service->refresh_index.done = refresh_indexed;
        replica_read_index(leader->replica, &service->refresh_index);
    } else if (view_current(service)) {
        refresh_end(service, RC_OK);
    } else {
        view_pump(service);
    }
}

void refresh_arrive(struct service *service, struct read_request *request)
{
    list_push_back(&service->refreshes, &request->link);
    if (service->closing || (request->client->remote && leader_load(service) == NULL)) {
        refresh_answer(service, request, service->closing ? RC_NO_QUORUM : RC_NOT_LEADER);
        return;
    }
    service_tick_start(service);
    refresh_pump(service);
}

static void expire_list(struct service *service, struct list *list, uint64_t now_ns, bool all)
{
    struct list *at = list->next;

    while (at != list) {
        struct read_request *request = CONTAINER_OF(at, struct read_request, link);

        at = at->next;
        if (all || now_ns >= request->expires_ns) {
            refresh_answer(service, request, RC_NO_QUORUM);
        }
    }
}

void refresh_expire(struct service *service, uint64_t now_ns, bool all)
{
    expire_list(service, &service->refreshes, now_ns, all);
    expire_list(service, &service->refreshing, now_ns, all);
}
