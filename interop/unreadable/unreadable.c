/* Makes a part of one file unreadable, as a bad sector does: reads that reach it fail with EIO.
 *
 * In: the environment variable UNREADABLE, the path of a text file with four numbers: device and inode of the file, first
 * byte of the part, and the byte after it. Preloaded into a server by `cargo xtask damage --bytes`.
 *
 * A disk replaces a bad sector when it is written. So a write over the whole part, or a cut before it, makes the part
 * readable again; the text file is removed then, for the next process. The inode tells a file that was written anew from the
 * one that it has replaced. Calls that go around the C library are not seen; reading through mmap is not either.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static volatile int bad;
static unsigned long long device, inode, from, to;

__attribute__((constructor)) static void configure(void) {
    const char *path = getenv("UNREADABLE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        bad = fscanf(file, "%llu %llu %llu %llu", &device, &inode, &from, &to) == 4;
        fclose(file);
    }
}

static void *original(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        abort();
    }
    return function;
}

static int is_the_file(int fd) {
    struct stat stat;
    return bad && fstat(fd, &stat) == 0 && stat.st_dev == device && stat.st_ino == inode;
}

static int fails(int fd, off_t offset, size_t count) {
    return is_the_file(fd) && (unsigned long long)offset < to && (unsigned long long)offset + count > from;
}

static void replace_sector(void) {
    bad = 0;
    unlink(getenv("UNREADABLE"));
}

static void note_write(int fd, off_t offset, ssize_t count) {
    if (count > 0 && is_the_file(fd) && (unsigned long long)offset <= from
        && (unsigned long long)offset + count >= to) {
        replace_sector();
    }
}

ssize_t pread64(int fd, void *buffer, size_t count, off_t offset) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next) {
        next = original("pread64");
    }
    if (fails(fd, offset, count)) {
        errno = EIO;
        return -1;
    }
    return next(fd, buffer, count, offset);
}

ssize_t pread(int fd, void *buffer, size_t count, off_t offset) {
    return pread64(fd, buffer, count, offset);
}

ssize_t read(int fd, void *buffer, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) {
        next = original("read");
    }
    if (is_the_file(fd) && fails(fd, lseek(fd, 0, SEEK_CUR), count)) {
        errno = EIO;
        return -1;
    }
    return next(fd, buffer, count);
}

ssize_t pwrite64(int fd, const void *buffer, size_t count, off_t offset) {
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next) {
        next = original("pwrite64");
    }
    ssize_t written = next(fd, buffer, count, offset);
    note_write(fd, offset, written);
    return written;
}

ssize_t pwrite(int fd, const void *buffer, size_t count, off_t offset) {
    return pwrite64(fd, buffer, count, offset);
}

int ftruncate64(int fd, off_t length) {
    static int (*next)(int, off_t);
    if (!next) {
        next = original("ftruncate64");
    }
    int result = next(fd, length);
    if (result == 0 && is_the_file(fd) && (unsigned long long)length <= from) {
        replace_sector();
    }
    return result;
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}
