/* Files by plain POSIX calls: blocking, for work jobs and start-up. Interrupted calls are repeated.
 */
#include "common/env/uv_loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILE_IOV_MAX = 64 };

static enum rc file_open(struct env *env, const char *path, unsigned flags, int *file,
                         struct error *error)
{
    int how = O_CLOEXEC;
    int fd;

    (void)env;
    if ((flags & ENV_OPEN_WRITE) != 0) {
        how |= (flags & ENV_OPEN_READ) != 0 ? O_RDWR : O_WRONLY;
    }
    how |= (flags & ENV_OPEN_CREATE) != 0 ? O_CREAT : 0;
    how |= (flags & ENV_OPEN_EXCLUSIVE) != 0 ? O_EXCL : 0;
    how |= (flags & ENV_OPEN_DIRECT) != 0 ? O_DIRECT : 0;
    do {
        fd = open(path, how, 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        enum rc rc = rc_from_errno(errno);

        return error_set(error, rc, "open %s: %s", path, strerrordesc_np(errno));
    }
    *file = fd;
    return RC_OK;
}

static void file_close(struct env *env, int file)
{
    (void)env;
    ASSERT(file >= 0);
    (void)close(file);
}

static enum rc file_read(struct env *env, int file, void *to, size_t len, uint64_t at, size_t *got)
{
    size_t done = 0;

    (void)env;
    while (done < len) {
        ssize_t n = pread(file, (char *)to + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EINVAL && done > 0) {
            break; /* O_DIRECT: the end of the file is not aligned */
        }
        if (n < 0) {
            *got = done;
            return rc_from_errno(errno);
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *got = done;
    return RC_OK;
}

/* Drops `written` bytes from the front of the vector. */
static void iov_advance(struct iovec **iov, int *count, size_t written)
{
    while (*count > 0 && written >= (*iov)->iov_len) {
        written -= (*iov)->iov_len;
        *iov += 1;
        *count -= 1;
    }
    if (*count > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + written;
        (*iov)->iov_len -= written;
    }
}

static enum rc file_write_some(int file, struct iovec *iov, int count, uint64_t *at)
{
    while (count > 0) {
        ssize_t n = pwritev(file, iov, count, (off_t)*at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return rc_from_errno(errno);
        }
        *at += (uint64_t)n;
        iov_advance(&iov, &count, (size_t)n);
    }
    return RC_OK;
}

static enum rc file_write(struct env *env, int file, const struct slice *from, size_t count,
                          uint64_t at)
{
    struct iovec iov[FILE_IOV_MAX];
    size_t next = 0;

    (void)env;
    while (next < count) {
        int used = 0;
        enum rc rc;

        while (next < count && used < FILE_IOV_MAX) {
            if (from[next].len > 0) {
                iov[used].iov_base = (void *)(uintptr_t)from[next].data;
                iov[used].iov_len = from[next].len;
                used += 1;
            }
            next += 1;
        }
        rc = file_write_some(file, iov, used, &at);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

static enum rc rc_of(int result)
{
    return result == 0 ? RC_OK : rc_from_errno(errno);
}

static enum rc file_sync(struct env *env, int file)
{
    (void)env;
    return rc_of(fdatasync(file)); /* not repeated: a failed sync may have dropped the pages */
}

static enum rc file_truncate(struct env *env, int file, uint64_t len)
{
    int result;

    (void)env;
    do {
        result = ftruncate(file, (off_t)len);
    } while (result != 0 && errno == EINTR);
    return rc_of(result);
}

static enum rc file_allocate(struct env *env, int file, uint64_t len)
{
    struct stat stat;
    int result;

    do {
        result = fallocate(file, 0, 0, (off_t)len);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || errno != EOPNOTSUPP) {
        return rc_of(result);
    }
    /* A file system that cannot reserve still gives a file of that size. */
    if (fstat(file, &stat) != 0) {
        return rc_from_errno(errno);
    }
    return (uint64_t)stat.st_size >= len ? RC_OK : file_truncate(env, file, len);
}

static enum rc file_punch(struct env *env, int file, uint64_t at, uint64_t len)
{
    int result;

    (void)env;
    do {
        result = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EOPNOTSUPP) {
        return RC_UNSUPPORTED;
    }
    return rc_of(result);
}

static enum rc file_data_range(struct env *env, int file, uint64_t at, uint64_t *from, uint64_t *to)
{
    off_t data = lseek(file, (off_t)at, SEEK_DATA);
    off_t hole;

    (void)env;
    if (data < 0 && errno == ENXIO) {
        return RC_NOT_FOUND;
    }
    hole = data < 0 ? -1 : lseek(file, data, SEEK_HOLE);
    if (hole < 0) { /* a file system that cannot tell: all may be data */
        *from = at;
        *to = UINT64_MAX;
        return RC_OK;
    }
    *from = (uint64_t)data;
    *to = (uint64_t)hole;
    return RC_OK;
}

static enum rc file_stat(struct env *env, const char *path, struct env_stat *out)
{
    struct stat found;

    (void)env;
    if (stat(path, &found) != 0) {
        return rc_from_errno(errno);
    }
    *out = (struct env_stat){
        .size_bytes = (uint64_t)found.st_size,
        .device = (uint64_t)found.st_dev,
        .is_directory = S_ISDIR(found.st_mode),
    };
    return RC_OK;
}

static enum rc file_rename(struct env *env, const char *from, const char *to)
{
    (void)env;
    return rc_of(rename(from, to));
}

static enum rc file_unlink(struct env *env, const char *path)
{
    (void)env;
    return rc_of(unlink(path));
}

static enum rc file_mkdir(struct env *env, const char *path)
{
    (void)env;
    return rc_of(mkdir(path, 0700));
}

static enum rc file_rmdir(struct env *env, const char *path)
{
    (void)env;
    return rc_of(rmdir(path));
}

static enum rc file_sync_directory(struct env *env, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum rc rc;

    (void)env;
    if (fd < 0) {
        return rc_from_errno(errno);
    }
    rc = rc_of(fsync(fd));
    (void)close(fd);
    return rc;
}

static enum rc file_list(struct env *env, const char *path, env_name_cb each, void *list)
{
    DIR *directory = opendir(path);
    enum rc rc;

    (void)env;
    if (directory == NULL) {
        return rc_from_errno(errno);
    }
    for (;;) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(directory); /* NOLINT(concurrency-mt-unsafe): the stream is this thread's */
        if (entry == NULL) {
            rc = errno == 0 ? RC_OK : rc_from_errno(errno);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            each(list, entry->d_name);
        }
    }
    (void)closedir(directory);
    return rc;
}

static enum rc file_space(struct env *env, const char *path, uint64_t *free_bytes,
                          uint64_t *total_bytes)
{
    struct statvfs found;

    (void)env;
    if (statvfs(path, &found) != 0) {
        return rc_from_errno(errno);
    }
    *free_bytes = (uint64_t)found.f_bavail * found.f_frsize;
    *total_bytes = (uint64_t)found.f_blocks * found.f_frsize;
    return RC_OK;
}

/* Of the open file description: a second open in the same process is refused too, and closing
 * another descriptor of the file does not drop it. */
static enum rc file_lock(struct env *env, int file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    (void)env;
    if (fcntl(file, F_OFD_SETLK, &lock) == 0) {
        return RC_OK;
    }
    return errno == EAGAIN || errno == EACCES ? RC_LOCKED : rc_from_errno(errno);
}

const struct env_file env_uv_file = {
    .open = file_open,
    .close = file_close,
    .read = file_read,
    .write = file_write,
    .sync = file_sync,
    .allocate = file_allocate,
    .punch = file_punch,
    .truncate = file_truncate,
    .data_range = file_data_range,
    .stat = file_stat,
    .rename = file_rename,
    .unlink = file_unlink,
    .mkdir = file_mkdir,
    .rmdir = file_rmdir,
    .sync_directory = file_sync_directory,
    .list = file_list,
    .space = file_space,
    .lock = file_lock,
};
