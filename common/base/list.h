/* Intrusive doubly linked list. The links are embedded; nothing is allocated. */
#ifndef COMMON_BASE_LIST_H
#define COMMON_BASE_LIST_H

#include <stdbool.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}

static inline void list_push_front(struct list *head, struct list *item)
{
    item->next = head->next;
    item->prev = head;
    head->next->prev = item;
    head->next = item;
}

/* Leaves `item` as an empty list of its own, so that removing twice is harmless. */
static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* Takes the first item out; the list must not be empty. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *item = head->next;

    list_remove(item);
    return item;
}

#endif
