/* Shared memory: it is charged as shmem, whichever call it came by. */
#include "zoo.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

static void mapped_file(int file, size_t amount)
{
    char *pages;
    need(file >= 0 && !ftruncate(file, amount * MIB));
    pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    touch(pages, amount * MIB);
}

static void shared_map(size_t amount, size_t more)
{
    touch(anonymous_pages(amount * MIB, MAP_SHARED), amount * MIB);
    (void)more;
}

static void memfd(size_t amount, size_t more)
{
    mapped_file(memfd_create("zoo", 0), amount);
    (void)more;
}

static void sysv(size_t amount, size_t more)
{
    int id = shmget(IPC_PRIVATE, amount * MIB, IPC_CREAT | 0600);
    char *pages;
    need(id >= 0);
    pages = shmat(id, NULL, 0);
    need(pages != (void *)-1 && !shmctl(id, IPC_RMID, NULL));
    touch(pages, amount * MIB);
    (void)more;
}

static void posix(size_t amount, size_t more)
{
    char name[64];
    int file;
    snprintf(name, sizeof name, "/dev/shm/zoo-%d", (int)getpid());
    file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    need(file >= 0 && !unlink(name));
    mapped_file(file, amount);
    (void)more;
}

/* a file in a memory volume at /scratch, which outlives the process but not the pod */
static void volume(size_t amount, size_t more)
{
    int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0);
    fill_file(file, amount * MIB);
    (void)more;
}

static void forever(void)
{
    for (;;) {
        step();
        nap(200);
    }
}

/* these keep what they took, within `more` seconds */
static void slowly(char *pages, size_t amount, size_t more)
{
    size_t done;
    for (done = 0; done < amount; done++) {
        touch(pages + done * MIB, MIB);
        nap(more * 1000 / amount);
    }
    forever();
}

static void shared_hog(size_t amount, size_t more)
{
    slowly(anonymous_pages(amount * MIB, MAP_SHARED), amount, more);
}

static void memfd_hog(size_t amount, size_t more)
{
    int file = memfd_create("zoo", 0);
    char *pages;
    need(file >= 0 && !ftruncate(file, amount * MIB));
    pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    slowly(pages, amount, more);
}

static void sysv_hog(size_t amount, size_t more)
{
    int id = shmget(IPC_PRIVATE, amount * MIB, IPC_CREAT | 0600);
    char *pages;
    need(id >= 0);
    pages = shmat(id, NULL, 0);
    need(pages != (void *)-1 && !shmctl(id, IPC_RMID, NULL));
    slowly(pages, amount, more);
}

/* its segment outlives the process, unless its IPC namespace ends as well */
static void sysv_kept_hog(size_t amount, size_t more)
{
    int id = shmget(IPC_PRIVATE, amount * MIB, IPC_CREAT | 0600);
    char *pages;
    need(id >= 0);
    pages = shmat(id, NULL, 0);
    need(pages != (void *)-1);
    slowly(pages, amount, more);
}

static void volume_hog(size_t amount, size_t more)
{
    int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_TRUNC, 0600);
    size_t done;
    need(file >= 0);
    for (done = 0; done < amount; done++) {
        fill_file(file, MIB);
        nap(more * 1000 / amount);
    }
    forever();
}

const struct load shared[] = {
    {"shared-map", shared_map}, {"memfd", memfd}, {"sysv", sysv}, {"posix", posix}, {"volume", volume},
    {"shared-hog", shared_hog}, {"memfd-hog", memfd_hog}, {"sysv-hog", sysv_hog},
    {"volume-hog", volume_hog}, {"sysv-kept-hog", sysv_kept_hog}, {NULL, NULL},
};
