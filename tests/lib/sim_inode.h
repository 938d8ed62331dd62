/*
 * Contents of one simulated file: 4 KiB pages, each as the page cache has it and as the platter has
 * it. Same pointer: clean. A page whose sync failed is not dirty any more but still differs, as on
 * Linux: cached reads show what the platter does not have.
 */
#ifndef TESTS_LIB_SIM_INODE_H
#define TESTS_LIB_SIM_INODE_H

#include "tests/lib/sim_world.h"

enum { SIM_PAGE = 4096, SIM_SECTOR = 512, SIM_BAD_MAX = 8 };

struct sim_page {
    uint8_t *now; /* NULL: zeros */
    uint8_t *disk;
    bool dirty;
    bool allocated;
};

struct sim_inode {
    uint32_t refs; /* names (seen or durable), pending changes, descriptors */
    bool is_directory;
    struct sim_device *device;
    uint64_t size;
    uint64_t disk_size;
    struct sim_page *pages;
    uint64_t page_count;
    uint64_t dirty_first; /* bounds of what may be dirty */
    uint64_t dirty_end;
    int locked_by; /* descriptor, or -1 */
    struct {
        uint64_t at;
        uint64_t len;
    } bad[SIM_BAD_MAX];
    uint32_t bad_count;
};

/* A disk. */
struct sim_device {
    struct list link;
    char *path; /* "/" or "/d1" */
    uint64_t number;
    uint64_t used_bytes;
    struct sim_disk_faults faults;
};

struct sim_inode *inode_new(struct sim_device *device, bool is_directory); /* one reference */
void inode_ref(struct sim_inode *inode);
void inode_unref(struct sim_inode *inode);

/* Short at the end. `direct`: what the platter has, unless dirty. RC_IO on a bad spot. */
enum rc inode_read(struct sim_inode *inode, void *to, size_t len, uint64_t at, bool direct,
                   size_t *got);
enum rc inode_write(struct sim_inode *inode, struct slice from, uint64_t at); /* RC_FULL */
enum rc inode_allocate(struct sim_inode *inode, uint64_t len);
void inode_punch(struct sim_inode *inode, uint64_t at, uint64_t len);
void inode_truncate(struct sim_inode *inode, uint64_t len);

/* The first run of pages at or after `at` that were ever written. False: none. */
bool inode_data_range(const struct sim_inode *inode, uint64_t at, uint64_t *from, uint64_t *to);

/* A sync in flight: what was dirty when it began. */
struct sim_sync;
struct sim_sync *inode_sync_begin(struct sim_inode *inode);
/* `ok` false: the pages count as clean, but the platter has what it had. Frees `sync`. */
void inode_sync_end(struct sim_sync *sync, bool ok);
/* A crash came first: what it covered is dirty again. Frees `sync`. */
void inode_sync_drop(struct sim_sync *sync);

/* A power cut: of each dirty page the platter has nothing, all, or some sectors. */
void inode_power_cut(struct sim_inode *inode, struct sim *sim);
bool inode_flip(struct sim_inode *inode, uint64_t at, unsigned bit);

#endif
