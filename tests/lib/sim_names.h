/*
 * Names of one node's files: what the program sees, and what a power cut would leave.
 *
 * A change (create, unlink, rename, ...) is seen at once and waits in `pending` until its directory
 * is synced. At a power cut a prefix of what still waits happens to have reached the disk. A name
 * whose directory was lost is lost with it.
 */
#ifndef TESTS_LIB_SIM_NAMES_H
#define TESTS_LIB_SIM_NAMES_H

#include "tests/lib/sim_inode.h"

struct sim_name {
    struct list link;
    char *path;
    struct sim_inode *now;  /* NULL: not seen */
    struct sim_inode *disk; /* NULL: not durable */
};

/* `from` loses its inode (NULL: none does) and `to` gets one (NULL: none does); together. */
struct sim_change {
    struct list link;
    char *from;
    char *to;
    struct sim_inode *inode; /* of `to` */
    bool wanted;             /* private to names_sync */
};

/* The path without doubled and trailing slashes; returns owned. */
char *names_clean(const char *path);
struct sim_name *names_find(struct sim_node *node, const char *path); /* NULL: not seen now */
/* Is `path` directly in `directory`? Both clean. */
bool names_in(const char *path, const char *directory);
bool names_parent_exists(struct sim_node *node, const char *path);
bool names_directory_empty(struct sim_node *node, const char *directory);
struct sim_device *names_device(struct sim_node *node, const char *path);

/* Borrows the paths; takes a reference of its own on the inode. */
void names_change(struct sim_node *node, const char *from, const char *to, struct sim_inode *inode);
void names_sync(struct sim_node *node, const char *directory); /* what is in it becomes durable */
void names_power_cut(struct sim_node *node);
void names_deinit(struct sim_node *node);

#endif
