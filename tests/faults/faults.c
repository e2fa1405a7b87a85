/* Faults of disks and clocks on demand, for a program that starts with this library in LD_PRELOAD.

   REDKILN_FAULTS names a file with `struct control`, which a test writes while the program runs.
   REDKILN_SHADOW names a folder: what a sync made durable below `control.below` is copied there,
   files by inode, and for each folder the names that it had when it was synced. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    double clock_seconds;               /* added to the wall clock */
    int64_t write_errno, sync_errno;    /* what writes and syncs fail with; 0 for none */
    int64_t num_writes, num_syncs;      /* how many have failed */
    int64_t num_clock_reads;            /* how many have received another time */
    char below[256];                    /* only files whose path begins with this */
};

static struct control *control;
static struct control calm;
static const char *shadow;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("REDKILN_FAULTS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED
        : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    control = mapped == MAP_FAILED ? &calm : mapped;
    if (fd >= 0) close(fd);
    shadow = getenv("REDKILN_SHADOW");
}

/* Another constructor may come first. */
static struct control *now(void) { return control ? control : &calm; }

#define REAL(name) ({ static __typeof__(&name) real; \
    if (!real) { real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); } \
    real; })

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    /* Redis refuses all writes after one sync that failed, until it is started again. */
    if (strstr(path, "/redis/")) return 0;
    return now()->below[0] && !strncmp(path, now()->below, strlen(now()->below));
}

static int fails(int fd, int64_t code, int64_t *count) {
    char path[4096];
    if (!code || !path_of(fd, path, sizeof path)) return 0;
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    errno = (int)code;
    return 1;
}

#define FAILS_TO_WRITE(fd) fails(fd, now()->write_errno, &now()->num_writes)

ssize_t write(int fd, const void *data, size_t size) {
    return FAILS_TO_WRITE(fd) ? -1 : REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return FAILS_TO_WRITE(fd) ? -1 : REAL(pwrite)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    return FAILS_TO_WRITE(fd) ? -1 : REAL(pwrite64)(fd, data, size, at);
}

/* The birth time tells a file from an earlier one with the same inode. */
static void name_of(int dir, const char *file, char *name, size_t size) {
    struct statx found;
    memset(&found, 0, sizeof found);
    statx(dir, file, *file ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found);
    snprintf(name, size, "%llu-%lld.%u", (unsigned long long)found.stx_ino,
             (long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
}

static FILE *begin(const char *kind, const char *name, char *temporary, char *final) {
    snprintf(final, 4096, "%s/%s/%s", shadow, kind, name);
    snprintf(temporary, 4096, "%s.%d.%lx", final, getpid(), (long)&kind);
    return fopen(temporary, "we");
}

static void keep_file(int fd, const char *name) {
    static __thread char buffer[65536];
    char temporary[4096], final[4096];
    FILE *copy = begin("files", name, temporary, final);
    if (!copy) abort();
    ssize_t got;
    for (off_t at = 0; (got = pread(fd, buffer, sizeof buffer, at)) > 0; at += got)
        if (fwrite(buffer, 1, (size_t)got, copy) != (size_t)got) abort();
    if (got < 0 || fclose(copy) || rename(temporary, final)) abort();
}

static void keep_names(int fd, const char *path, const char *name) {
    char temporary[4096], final[4096], inode[80];
    FILE *list = begin("folders", name, temporary, final);
    DIR *folder = opendir(path);
    if (!list || !folder) abort();
    fprintf(list, "%s\n", path);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_type == DT_REG) {
            name_of(fd, entry->d_name, inode, sizeof inode);
            fprintf(list, "%s %s\n", inode, entry->d_name);
        }
    closedir(folder);
    if (fclose(list) || rename(temporary, final)) abort();
}

static void keep(int fd) {
    char path[4096], name[80], reopened[64];
    struct stat status;
    if (!shadow || !path_of(fd, path, sizeof path) || fstat(fd, &status)) return;
    if (strstr(path, "/redis/")) return;  /* the queue may lose everything */
    name_of(fd, "", name, sizeof name);
    if (S_ISDIR(status.st_mode)) { keep_names(fd, path, name); return; }
    if (!S_ISREG(status.st_mode)) return;
    snprintf(reopened, sizeof reopened, "/proc/self/fd/%d", fd);  /* it may be open for writing only */
    int readable = open(reopened, O_RDONLY | O_CLOEXEC);
    if (readable < 0) abort();
    keep_file(readable, name);
    close(readable);
}

#define SYNC(name) \
    int name(int fd) { \
        if (fails(fd, now()->sync_errno, &now()->num_syncs)) return -1; \
        int result = REAL(name)(fd); \
        if (!result) keep(fd); \
        return result; \
    }

SYNC(fsync)
SYNC(fdatasync)

static void shift(struct timespec *time) {
    double seconds = now()->clock_seconds;
    if (seconds == 0) return;
    __atomic_add_fetch(&now()->num_clock_reads, 1, __ATOMIC_RELAXED);
    time->tv_sec += (time_t)seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = REAL(clock_gettime)(clock, time);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(time);
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    time->tv_sec = precise.tv_sec;
    time->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (where) *where = precise.tv_sec;
    return precise.tv_sec;
}
