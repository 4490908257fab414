/* Anonymous memory, in every pattern in which programs take it. */
#include "zoo.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void burst(size_t amount, size_t more)
{
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    (void)more;
}

/* `more` ms a MiB */
static void slow(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t done;
    for (done = 0; done < amount; done++) {
        touch(pages + done * MIB, MIB);
        nap(more);
    }
}

/* grows, and works on it for `more` seconds */
static void settle(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    work(pages, amount * MIB, more);
}

/* so much, and `more` beside it that comes and goes */
static void oscillate(size_t amount, size_t more)
{
    int round;
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (round = 0; round < 20; round++) {
        char *pages = anonymous_pages(more * MIB, MAP_PRIVATE);
        touch(pages, more * MIB);
        munmap(pages, more * MIB);
    }
}

static void again(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t round;
    for (round = 0; round < more; round++)
        touch(pages, amount * MIB);
}

static void heap(size_t amount, size_t more)
{
    size_t done;
    for (done = 0; done < amount; done++) {
        char *pages = sbrk(MIB);
        need(pages != (void *)-1);
        touch(pages, MIB);
    }
    (void)more;
}

/* a buffer that doubles by copying, as vectors do: old and new together are the amount */
static void doubling(size_t amount, size_t more)
{
    size_t last = amount * MIB / 3 * 2, size = last / 8 / PAGE * PAGE;
    char *old = anonymous_pages(size, MAP_PRIVATE), *new;
    touch(old, size);
    while (size * 2 <= last) {
        size_t at;
        new = anonymous_pages(size * 2, MAP_PRIVATE);
        for (at = 0; at < size; at += PAGE) {
            memcpy(new + at, old + at, PAGE);
            if (at % MIB < PAGE)
                step();
        }
        munmap(old, size);
        touch(new + size, size);
        old = new;
        size *= 2;
    }
    (void)more;
}

static void remapped(size_t amount, size_t more)
{
    size_t size = 4 * MIB;
    char *pages = anonymous_pages(size, MAP_PRIVATE);
    touch(pages, size);
    while (size < amount * MIB) {
        size_t grown = size + 4 * MIB;
        pages = mremap(pages, size, grown, MREMAP_MAYMOVE);
        need(pages != MAP_FAILED);
        touch(pages + size, grown - size);
        size = grown;
    }
    (void)more;
}

static void huge(size_t amount, size_t more)
{
    char *pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED);
    madvise(pages, amount * MIB, MADV_HUGEPAGE);
    touch(pages, amount * MIB);
    (void)more;
}

/* filled by the kernel inside one system call a MiB */
static void inside(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t done;
    (void)more;
    for (done = 0; done < amount; done++) {
        if (madvise(pages + done * MIB, MIB, MADV_POPULATE_WRITE))
            memset(pages + done * MIB, 1, MIB);
        step();
    }
}

/* a child that writes to all that it shares with its parent */
static void copied(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount / 2 * MIB, MAP_PRIVATE);
    pid_t child;
    touch(pages, amount / 2 * MIB);
    child = fork();
    need(child >= 0);
    if (!child) {
        touch(pages, amount / 2 * MIB);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    (void)more;
}

static void part(size_t amount)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    work(pages, amount * MIB, 3);
}

/* `more` processes that share the amount */
static void many(size_t amount, size_t more)
{
    children(more, part, amount / more);
}

static void small_part(size_t amount)
{
    touch(anonymous_pages(amount << 10, MAP_PRIVATE), amount << 10);
    step();
    nap(60000);
}

/* processes without end that hold `amount` KiB each, `more` at most */
static void forks(size_t amount, size_t more)
{
    children(more, small_part, amount);
}

static void given_back(size_t amount, size_t more, int advice)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t round;
    for (round = 0; round < more; round++) {
        size_t done;
        for (done = 0; done < amount; done += 2) {
            touch(pages + done * MIB, 2 * MIB);
            need(!madvise(pages + done * MIB, 2 * MIB, advice));
        }
        nap(200);
    }
}

/* a managed heap: what lives, and a nursery of `more` that fills, is marked with all of it, and goes */
static void managed(size_t amount, size_t more)
{
    char *lives = anonymous_pages(amount * MIB, MAP_PRIVATE);
    char *nursery = anonymous_pages(more * MIB, MAP_PRIVATE);
    int round;
    touch(lives, amount * MIB);
    for (round = 0; round < 20; round++) {
        touch(nursery, more * MIB);
        touch(lives, amount * MIB);
        need(!madvise(nursery, more * MIB, MADV_DONTNEED));
    }
}

static void freed(size_t amount, size_t more)
{
    given_back(amount, more, MADV_FREE);
}

/* a managed heap that keeps the amount and has given `more` back by and by: it is the kernel's to take */
static void lazy(size_t amount, size_t more)
{
    char *lives = anonymous_pages(amount * MIB, MAP_PRIVATE);
    char *pages = anonymous_pages(more * MIB, MAP_PRIVATE);
    size_t done;
    touch(lives, amount * MIB);
    for (done = 0; done < more; done += 2) {
        touch(pages + done * MIB, 2 * MIB);
        need(!madvise(pages + done * MIB, 2 * MIB, MADV_FREE));
        nap(10);
    }
    work(lives, amount * MIB, 600);
}

static void dropped(size_t amount, size_t more)
{
    given_back(amount, more, MADV_DONTNEED);
}

static void cold(size_t amount, size_t more)
{
    given_back(amount, more, MADV_COLD);
}

static void paged_out(size_t amount, size_t more)
{
    given_back(amount, more, MADV_PAGEOUT);
}

static void locked(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t done;
    for (done = 0; done < amount; done++) {
        need(!mlock(pages + done * MIB, MIB));
        touch(pages + done * MIB, MIB);
    }
    (void)more;
}

/* grows to the amount, stops itself, and grows by `more` once somebody lets it go on */
static void stopped(size_t amount, size_t more)
{
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    raise(SIGSTOP);
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

static void quiet(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    for (;;) {
        pages[0]++;
        step();
        nap(200);
    }
    (void)more;
}

/* goes through all of it without end: swaps where it may */
static void walker(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    for (;;)
        touch(pages, amount * MIB);
    (void)more;
}

/* takes it within `more` seconds and keeps it */
static void hog(size_t amount, size_t more)
{
    slow(amount, more * 1000 / amount);
    for (;;) {
        step();
        nap(200);
    }
}

const struct load anonymous[] = {
    {"burst", burst}, {"slow", slow}, {"settle", settle}, {"oscillate", oscillate}, {"again", again},
    {"heap", heap}, {"doubling", doubling}, {"remapped", remapped}, {"huge", huge}, {"inside", inside},
    {"copied", copied}, {"many", many}, {"forks", forks}, {"freed", freed}, {"lazy", lazy}, {"dropped", dropped},
    {"cold", cold}, {"managed", managed}, {"paged-out", paged_out}, {"locked", locked}, {"stopped", stopped}, {"quiet", quiet},
    {"walker", walker}, {"hog", hog}, {NULL, NULL},
};
