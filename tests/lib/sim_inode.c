#include "tests/lib/sim_inode.h"

struct sim_sync {
    struct sim_inode *inode;
    uint64_t size;
    uint64_t first;
    uint64_t count;
    uint8_t *pages[]; /* copies of the dirty ones, NULL for the others */
};

struct sim_inode *inode_new(struct sim_device *device, bool is_directory)
{
    struct sim_inode *inode = mem_alloc(sizeof(*inode));

    inode->refs = 1;
    inode->is_directory = is_directory;
    inode->device = device;
    inode->locked_by = -1;
    inode->dirty_first = UINT64_MAX;
    return inode;
}

void inode_ref(struct sim_inode *inode)
{
    inode->refs += 1;
}

static void page_drop(struct sim_inode *inode, struct sim_page *page)
{
    if (page->now != page->disk) {
        mem_free(page->now);
    }
    mem_free(page->disk);
    if (page->allocated) {
        ASSERT(inode->device->used_bytes >= SIM_PAGE);
        inode->device->used_bytes -= SIM_PAGE;
    }
    *page = (struct sim_page){.now = NULL};
}

void inode_unref(struct sim_inode *inode)
{
    ASSERT(inode->refs > 0);
    inode->refs -= 1;
    if (inode->refs > 0) {
        return;
    }
    for (uint64_t i = 0; i < inode->page_count; i++) {
        page_drop(inode, &inode->pages[i]);
    }
    mem_free(inode->pages);
    mem_free(inode);
}

static void pages_extend(struct sim_inode *inode, uint64_t count)
{
    if (count <= inode->page_count) {
        return;
    }
    if (count < inode->page_count * 3 / 2) {
        count = inode->page_count * 3 / 2;
    }
    inode->pages = mem_realloc(inode->pages, count * sizeof(struct sim_page));
    memset(inode->pages + inode->page_count, 0,
           (count - inode->page_count) * sizeof(struct sim_page));
    inode->page_count = count;
}

static enum rc page_take(struct sim_inode *inode, struct sim_page *page)
{
    struct sim_device *device = inode->device;

    if (page->allocated) {
        return RC_OK;
    }
    if (device->used_bytes + SIM_PAGE > device->faults.capacity_bytes) {
        return RC_FULL;
    }
    device->used_bytes += SIM_PAGE;
    page->allocated = true;
    return RC_OK;
}

/* The cache's own copy of the page, to be changed. */
static uint8_t *page_own(struct sim_inode *inode, uint64_t number)
{
    struct sim_page *page = &inode->pages[number];

    if (page->now == page->disk) {
        const uint8_t *old = page->now;

        page->now = mem_alloc(SIM_PAGE);
        if (old != NULL) {
            memcpy(page->now, old, SIM_PAGE);
        }
    }
    page->dirty = true;
    if (number < inode->dirty_first) {
        inode->dirty_first = number;
    }
    if (number >= inode->dirty_end) {
        inode->dirty_end = number + 1;
    }
    return page->now;
}

static bool spot_is_bad(const struct sim_inode *inode, uint64_t at, size_t len)
{
    for (uint32_t i = 0; i < inode->bad_count; i++) {
        if (at < inode->bad[i].at + inode->bad[i].len && inode->bad[i].at < at + len) {
            return true;
        }
    }
    return false;
}

enum rc inode_read(struct sim_inode *inode, void *to, size_t len, uint64_t at, bool direct,
                   size_t *got)
{
    uint8_t *out = to;
    size_t done = 0;

    len = at >= inode->size ? 0 : len;
    len = len > inode->size - at && len > 0 ? (size_t)(inode->size - at) : len;
    if (spot_is_bad(inode, at, len)) {
        return RC_IO;
    }
    while (done < len) {
        uint64_t number = (at + done) / SIM_PAGE;
        size_t in = (size_t)((at + done) % SIM_PAGE);
        size_t n = SIM_PAGE - in < len - done ? SIM_PAGE - in : len - done;
        const uint8_t *from = NULL;

        if (number < inode->page_count) {
            const struct sim_page *page = &inode->pages[number];

            from = direct && !page->dirty ? page->disk : page->now;
        }
        if (from != NULL) {
            memcpy(out + done, from + in, n);
        } else {
            memset(out + done, 0, n);
        }
        done += n;
    }
    *got = len;
    return RC_OK;
}

enum rc inode_write(struct sim_inode *inode, struct slice from, uint64_t at)
{
    size_t done = 0;

    if (from.len == 0) {
        return RC_OK;
    }
    pages_extend(inode, (at + from.len + SIM_PAGE - 1) / SIM_PAGE);
    while (done < from.len) {
        uint64_t number = (at + done) / SIM_PAGE;
        size_t in = (size_t)((at + done) % SIM_PAGE);
        size_t n = SIM_PAGE - in < from.len - done ? SIM_PAGE - in : from.len - done;

        if (page_take(inode, &inode->pages[number]) != RC_OK) {
            return RC_FULL; /* what came before stays written, as on a real disk */
        }
        memcpy(page_own(inode, number) + in, from.data + done, n);
        done += n;
        if (at + done > inode->size) {
            inode->size = at + done;
        }
    }
    return RC_OK;
}

enum rc inode_allocate(struct sim_inode *inode, uint64_t len)
{
    uint64_t count = (len + SIM_PAGE - 1) / SIM_PAGE;

    pages_extend(inode, count);
    for (uint64_t i = 0; i < count; i++) {
        enum rc rc = page_take(inode, &inode->pages[i]);

        if (rc != RC_OK) {
            return rc;
        }
    }
    if (len > inode->size) {
        inode->size = len;
    }
    return RC_OK;
}

/* Zeros, in the cache; a crash before a sync may bring the old bytes back. */
static void inode_zero(struct sim_inode *inode, uint64_t at, uint64_t end)
{
    uint64_t limit = inode->page_count * SIM_PAGE;

    end = end < limit ? end : limit;
    while (at < end) {
        uint64_t number = at / SIM_PAGE;
        uint64_t in = at % SIM_PAGE;
        uint64_t n = SIM_PAGE - in < end - at ? SIM_PAGE - in : end - at;

        if (inode->pages[number].now != NULL) {
            memset(page_own(inode, number) + in, 0, n);
        }
        at += n;
    }
}

static void inode_release(struct sim_inode *inode, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end && i < inode->page_count; i++) {
        if (inode->pages[i].allocated) {
            inode->pages[i].allocated = false;
            inode->device->used_bytes -= SIM_PAGE;
        }
    }
}

void inode_punch(struct sim_inode *inode, uint64_t at, uint64_t len)
{
    inode_zero(inode, at, at + len);
    inode_release(inode, (at + SIM_PAGE - 1) / SIM_PAGE, (at + len) / SIM_PAGE);
}

void inode_truncate(struct sim_inode *inode, uint64_t len)
{
    if (len < inode->size) {
        inode_zero(inode, len, inode->size);
        inode_release(inode, (len + SIM_PAGE - 1) / SIM_PAGE, inode->page_count);
    }
    inode->size = len;
}

static bool page_has_data(const struct sim_inode *inode, uint64_t number)
{
    return inode->pages[number].now != NULL || inode->pages[number].disk != NULL;
}

bool inode_data_range(const struct sim_inode *inode, uint64_t at, uint64_t *from, uint64_t *to)
{
    uint64_t number = at / SIM_PAGE;
    uint64_t end = (inode->size + SIM_PAGE - 1) / SIM_PAGE;

    end = end < inode->page_count ? end : inode->page_count;
    while (number < end && !page_has_data(inode, number)) {
        number += 1;
    }
    if (number >= end) {
        return false;
    }
    *from = number * SIM_PAGE;
    while (number < end && page_has_data(inode, number)) {
        number += 1;
    }
    *to = number * SIM_PAGE;
    return true;
}

struct sim_sync *inode_sync_begin(struct sim_inode *inode)
{
    uint64_t first = inode->dirty_first < inode->dirty_end ? inode->dirty_first : 0;
    uint64_t count = inode->dirty_first < inode->dirty_end ? inode->dirty_end - first : 0;
    struct sim_sync *sync = mem_alloc(sizeof(*sync) + count * sizeof(uint8_t *));

    sync->inode = inode;
    sync->size = inode->size;
    sync->first = first;
    sync->count = count;
    inode_ref(inode);
    for (uint64_t i = 0; i < count; i++) {
        struct sim_page *page = &inode->pages[first + i];

        if (page->dirty) {
            sync->pages[i] = mem_copy(page->now, SIM_PAGE);
            page->dirty = false; /* a later write makes it dirty again */
        }
    }
    inode->dirty_first = UINT64_MAX;
    inode->dirty_end = 0;
    return sync;
}

void inode_sync_end(struct sim_sync *sync, bool ok)
{
    struct sim_inode *inode = sync->inode;

    for (uint64_t i = 0; i < sync->count; i++) {
        struct sim_page *page = &inode->pages[sync->first + i];
        uint8_t *copy = sync->pages[i];

        if (copy == NULL) {
            continue;
        }
        if (!ok) {
            mem_free(copy);
            continue;
        }
        if (page->disk != page->now) {
            mem_free(page->disk);
        }
        page->disk = copy;
        if (!page->dirty) { /* equal by now: share */
            mem_free(page->now == page->disk ? NULL : page->now);
            page->now = page->disk;
        }
    }
    if (ok) {
        inode->disk_size = sync->size;
    }
    inode_unref(inode);
    mem_free(sync);
}

void inode_sync_drop(struct sim_sync *sync)
{
    for (uint64_t i = 0; i < sync->count; i++) {
        if (sync->pages[i] != NULL) {
            (void)page_own(sync->inode, sync->first + i);
            mem_free(sync->pages[i]);
        }
    }
    inode_unref(sync->inode);
    mem_free(sync);
}

void inode_power_cut(struct sim_inode *inode, struct sim *sim)
{
    for (uint64_t i = 0; i < inode->page_count; i++) {
        struct sim_page *page = &inode->pages[i];
        uint64_t fate = sim_below(sim, 3); /* 0: old, 1: new, 2: torn */

        if (page->now == page->disk) {
            continue;
        }
        for (size_t at = 0; at < SIM_PAGE; at += SIM_SECTOR) {
            bool keep_new = fate == 1 || (fate == 2 && sim_chance(sim, 500));

            if (!keep_new || !page->dirty) {
                if (page->disk != NULL) {
                    memcpy(page->now + at, page->disk + at, SIM_SECTOR);
                } else {
                    memset(page->now + at, 0, SIM_SECTOR);
                }
            }
        }
        mem_free(page->disk);
        page->disk = page->now;
        page->dirty = false;
    }
    if (inode->disk_size != inode->size && sim_chance(sim, 500)) {
        inode->size = inode->disk_size;
    }
    inode->disk_size = inode->size;
    inode->dirty_first = UINT64_MAX;
    inode->dirty_end = 0;
    inode->locked_by = -1;
}

bool inode_flip(struct sim_inode *inode, uint64_t at, unsigned bit)
{
    struct sim_page *page;

    ASSERT(bit < 8);
    if (at >= inode->size || at / SIM_PAGE >= inode->page_count) {
        return false;
    }
    page = &inode->pages[at / SIM_PAGE];
    if (page->now == NULL) {
        page->now = mem_alloc(SIM_PAGE);
        page->disk = page->now;
    }
    page->now[at % SIM_PAGE] ^= (uint8_t)(1U << bit);
    if (page->disk != NULL && page->disk != page->now) {
        page->disk[at % SIM_PAGE] ^= (uint8_t)(1U << bit);
    }
    return true;
}
