/* Kernel memory that a process holds by descriptors, mappings and tasks. */
#include "zoo.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char chunk[1 << 16];

static void filled_pipes(size_t amount, size_t pause)
{
    size_t filled = 0, told = 0;
    while (filled < amount * MIB) {
        int ends[2];
        ssize_t size;
        need(!pipe2(ends, O_NONBLOCK));
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while ((size = write(ends[1], chunk, sizeof chunk)) > 0)
            filled += size;
        if (filled - told >= MIB) {
            told = filled;
            step();
            nap(pause);
        }
    }
}

static void pipes(size_t amount, size_t more)
{
    filled_pipes(amount, 0);
    (void)more;
}

/* keeps what it took within `more` seconds */
static void pipes_hog(size_t amount, size_t more)
{
    filled_pipes(amount, more * 1000 / amount);
    for (;;) {
        step();
        nap(200);
    }
}

static void filled_sockets(size_t amount, size_t pause)
{
    size_t filled = 0, told = 0;
    int size = 4 << 20;
    while (filled < amount * MIB) {
        int ends[2];
        ssize_t sent;
        need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
        while ((sent = write(ends[0], chunk, 32 << 10)) > 0)
            filled += sent;
        if (filled - told >= MIB) {
            told = filled;
            step();
            nap(pause);
        }
    }
}

static void sockets(size_t amount, size_t more)
{
    filled_sockets(amount, 0);
    (void)more;
}

static void sockets_hog(size_t amount, size_t more)
{
    filled_sockets(amount, more * 1000 / amount);
    for (;;) {
        step();
        nap(200);
    }
}

/* TCP to peers that do not read, as far as the kernel's own bound lets it */
static void tcp(size_t amount, size_t more)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    size_t filled = 0, peers;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(!bind(listening, (struct sockaddr *)&at, sizeof at) && !listen(listening, 64));
    need(!getsockname(listening, (struct sockaddr *)&at, &length));
    for (peers = 0; peers < 200 && filled < amount * MIB; peers++) {
        int end = socket(AF_INET, SOCK_STREAM, 0);
        ssize_t size;
        need(end >= 0 && !connect(end, (struct sockaddr *)&at, sizeof at));
        need(accept(listening, NULL, NULL) >= 0 && fcntl(end, F_SETFL, O_NONBLOCK) >= 0);
        while ((size = write(end, chunk, sizeof chunk)) > 0) {
            filled += size;
            step();
        }
    }
    (void)more;
}

/* thousands of descriptors, each with its inode or waiters */
static void descriptors(size_t amount, size_t more)
{
    size_t one;
    int waits = epoll_create1(0);
    for (one = 0; one < amount * 1000; one++) {
        struct epoll_event wanted = {EPOLLIN, {0}};
        int made = eventfd(0, 0);
        if (made < 0 && errno == EMFILE)
            return;
        need(made >= 0 && !epoll_ctl(waits, EPOLL_CTL_ADD, made, &wanted));
        if (one % 100 == 0)
            step();
    }
    (void)more;
}

/* thousands of sockets that nobody wrote to */
static void idle_sockets(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount * 1000; one++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) {
            need(errno == EMFILE);
            return;
        }
        if (one % 100 == 0)
            step();
    }
    (void)more;
}

/* one read in each 2 MiB costs a page of tables and none of memory */
static void page_tables(size_t amount, size_t more)
{
    size_t count = amount * MIB / PAGE, one;
    volatile char *pages = mmap(NULL, count << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(pages != MAP_FAILED);
    madvise((void *)pages, count << 21, MADV_NOHUGEPAGE);
    for (one = 0; one < count; one++) {
        (void)pages[one << 21];
        if (one % 256 == 0)
            step();
    }
    (void)more;
}

static void split_map(size_t amount)
{
    char *pages = mmap(NULL, 2 * amount * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t one;
    need(pages != MAP_FAILED);
    for (one = 0; one < amount; one++) {
        if (mprotect(pages + 2 * one * PAGE, PAGE, PROT_NONE))
            break;
        if (one % 500 == 0)
            step();
    }
    nap(60000);
}

/* `more` processes with thousands of mappings each */
static void mappings(size_t amount, size_t more)
{
    children(more, split_map, amount * 1000);
}

static void idle_task(size_t amount)
{
    (void)amount;
    nap(60000);
}

/* tasks that do nothing: kernel stacks and page tables */
static void tasks(size_t amount, size_t more)
{
    children(amount, idle_task, 0);
    (void)more;
}

/* rings of io_uring with their entries, which are memory of the kernel */
static void rings(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount / 3; one++) {
        unsigned char settings[120] = {0};
        long ring = syscall(425, 32768, settings);
        if (ring < 0 && (errno == ENOSYS || errno == EPERM || errno == ENOMEM))
            return;
        need(ring >= 0);
        step();
    }
    (void)more;
}

static void huge_pages(size_t amount, size_t more)
{
    size_t done;
    char *pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    need(pages != MAP_FAILED);
    for (done = 0; done < amount; done += 2) {
        pages[done * MIB] = 1;
        step();
    }
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

const struct load kernel[] = {
    {"pipes", pipes}, {"pipes-hog", pipes_hog}, {"sockets", sockets}, {"sockets-hog", sockets_hog},
    {"tcp", tcp}, {"descriptors", descriptors}, {"idle-sockets", idle_sockets},
    {"page-tables", page_tables}, {"mappings", mappings}, {"tasks", tasks}, {"rings", rings},
    {"huge-pages", huge_pages}, {NULL, NULL},
};
