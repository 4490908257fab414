/* Memory that comes and goes as in language runtimes and servers, and growth that others hold up. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* fills a heap and gives all of it back, `more` times: a collector that moves */
static void collected(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    for (; more; more--) {
        touch(pages, amount * MIB);
        need(!madvise(pages, amount * MIB, MADV_DONTNEED));
    }
}

/* holds `amount`, takes `more` and gives it back without end: a heap that its collector keeps small */
static void sawtooth(size_t amount, size_t more)
{
    char *pages;
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    pages = anonymous_pages(more * MIB, MAP_PRIVATE);
    for (;;) {
        touch(pages, more * MIB);
        need(!madvise(pages, more * MIB, MADV_DONTNEED));
    }
}

/* `more` children at once write to 3 MiB of their parent's `amount`, and end when all have: a server that forks */
static void prefork(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    for (;;) {
        int done[2], go[2];
        size_t one;
        char byte;
        need(!pipe(done) && !pipe(go));
        for (one = 0; one < more; one++) {
            pid_t child = fork();
            need(child >= 0);
            if (child)
                continue;
            close(go[1]);
            touch(pages + one * 3 * MIB, 3 * MIB);
            if (write(done[1], "", 1) == 1 && read(go[0], &byte, 1) == 0)
                _exit(0);
            _exit(1);
        }
        for (one = 0; one < more; one++)
            need(read(done[0], &byte, 1) == 1);
        close(go[1]);
        while (wait(NULL) > 0)
            ;
        close(go[0]);
        close(done[0]);
        close(done[1]);
        step();
    }
}

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void *in_turn(void *bytes)
{
    size_t left;
    for (left = (size_t)bytes; left >= MIB; left -= MIB) {
        pthread_mutex_lock(&one_at_a_time);
        touch(anonymous_pages(MIB, MAP_PRIVATE), MIB);
        pthread_mutex_unlock(&one_at_a_time);
    }
    return NULL;
}

/* `more` threads that wait for one that holds the lock of the allocator */
static void serial(size_t amount, size_t more)
{
    pthread_t made[64];
    size_t one;
    for (one = 0; one < more; one++)
        need(!pthread_create(&made[one], NULL, in_turn, (void *)(amount * MIB / more)));
    for (one = 0; one < more; one++)
        pthread_join(made[one], NULL);
}

static void *serve_faults(void *file)
{
    static char page[4096];
    struct uffd_msg message;
    memset(page, 'z', sizeof page);
    while (read(*(int *)file, &message, sizeof message) == sizeof message) {
        struct uffdio_copy copy = {message.arg.pagefault.address & ~(PAGE - 1), (uintptr_t)page, PAGE, 0, 0};
        if (message.event == UFFD_EVENT_PAGEFAULT && ioctl(*(int *)file, UFFDIO_COPY, &copy) && errno != EEXIST)
            break;
    }
    return NULL;
}

/* another thread gives each page that this one touches: a machine or a heap that is restored */
static void userfault(size_t amount, size_t more)
{
    static int file;
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    struct uffdio_api api = {UFFD_API, 0, 0};
    struct uffdio_register all = {{(uintptr_t)pages, amount * MIB}, UFFDIO_REGISTER_MODE_MISSING, 0};
    pthread_t handler;
    file = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    if (file < 0 && (errno == ENOSYS || errno == EPERM))
        return;
    need(file >= 0 && !ioctl(file, UFFDIO_API, &api) && !ioctl(file, UFFDIO_REGISTER, &all));
    need(!pthread_create(&handler, NULL, serve_faults, &file));
    touch(pages, amount * MIB);
    (void)more;
}

/* pages of which the kernel may make one, where it looks for such */
static void mergeable(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    madvise(pages, amount * MIB, MADV_MERGEABLE);
    touch(pages, amount * MIB);
    (void)more;
}

static void nothing(int signal)
{
    (void)signal;
}

/* grows while a signal comes every 5 ms, as from a profiler */
static void signals(size_t amount, size_t more)
{
    struct itimerval often = {{0, 5000}, {0, 5000}};
    signal(SIGALRM, nothing);
    setitimer(ITIMER_REAL, &often, NULL);
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    (void)more;
}

static char chunk[1 << 16];

static void write_on(void)
{
    int file = disk_file(1);
    size_t at;
    for (at = 0;; at = (at + sizeof chunk) % (8 * MIB)) {
        need(pwrite(file, chunk, sizeof chunk, at) == sizeof chunk && !fdatasync(file));
        step();
    }
}

/* `more` processes that write and sync without end, beside `amount` that one holds */
static void fsyncs(size_t amount, size_t more)
{
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (; more > 1; more--) {
        pid_t child = fork();
        need(child >= 0);
        if (!child)
            break;
    }
    write_on();
}

/* the same beside one, whose steps count, that grows to `amount` */
static void fsyncs_beside(size_t amount, size_t more)
{
    pid_t writers[16];
    size_t one;
    for (one = 0; one < more; one++) {
        int file = -1;
        size_t at;
        writers[one] = fork();
        need(writers[one] >= 0);
        if (!writers[one])
            file = disk_file(1);
        for (at = 0; !writers[one]; at = (at + sizeof chunk) % (8 * MIB))
            if (pwrite(file, chunk, sizeof chunk, at) < 0 || fdatasync(file))
                _exit(1);
    }
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (one = 0; one < more; one++)
        kill(writers[one], SIGKILL);
}

/* reads a file of `more` past the page cache, beside `amount` that it grew to */
static void direct(size_t amount, size_t more)
{
    char name[64], *pages = anonymous_pages(amount * MIB, MAP_PRIVATE), *to = anonymous_pages(MIB, MAP_PRIVATE);
    int file = disk_file(more), again;
    size_t at;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    again = open(name, O_RDONLY | 040000 /* O_DIRECT */);
    need(again >= 0);
    touch(pages, amount * MIB);
    for (at = 0;; at = (at + MIB) % (more * MIB)) {
        need(pread(again, to, MIB, at) == (ssize_t)MIB);
        step();
    }
}

/* grows in a cgroup below its own that counts memory for itself, with a memory.high of `more` if there is one */
static void nested_memory(size_t amount, size_t more)
{
    char number[32];
    make_cgroup("/inner");
    tell_cgroup("/inner", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    snprintf(number, sizeof number, "%zu", more * MIB);
    if (more)
        tell_cgroup("/inner", "memory.high", number);
    grow(amount);
}

/* goes through a file in a memory volume without end: swaps where it may */
static void volume_walker(size_t amount, size_t more)
{
    int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *pages;
    need(file >= 0);
    fill_file(file, amount * MIB);
    pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    for (;;)
        touch(pages, amount * MIB);
    (void)more;
}

/* the same in pages that nothing compresses */
static void noise_walker(size_t amount, size_t more)
{
    uint64_t seed = 1, *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t at;
    for (at = 0; at < amount * MIB / sizeof *pages; at++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        pages[at] = seed;
        if (at % (MIB / sizeof *pages) == 0)
            step();
    }
    for (;;)
        touch((char *)pages, amount * MIB);
    (void)more;
}

const struct load cycles[] = {
    {"collected", collected}, {"sawtooth", sawtooth}, {"prefork", prefork}, {"serial", serial}, {"userfault", userfault},
    {"mergeable", mergeable}, {"signals", signals}, {"fsyncs", fsyncs}, {"fsyncs-beside", fsyncs_beside}, {"direct", direct},
    {"nested-memory", nested_memory}, {"volume-walker", volume_walker}, {"noise-walker", noise_walker}, {NULL, NULL},
};
