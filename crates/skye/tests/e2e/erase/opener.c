// Keeps a device open in ways that the list of a process's own descriptors does not show: opener WAY DEVICE.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *way, *device;

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

// Opens the device in a table of descriptors of its own, or in that of a process whose first thread has ended.
static void *open_in_thread(void *unused)
{
	if (!strcmp(way, "thread") && unshare(CLONE_FILES))
		return NULL;
	if (!strcmp(way, "leader"))
		sleep(1);
	if (open(device, O_RDONLY) >= 0)
		ready();
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	way = argv[1];
	device = argv[2];
	if (!strcmp(way, "thread") || !strcmp(way, "leader")) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, open_in_thread, NULL))
			return 1;
		if (!strcmp(way, "leader"))
			syscall(SYS_exit, 0);
		pthread_join(thread, NULL);
		return 1;
	}
	if (!strcmp(way, "deleted")) {
		// Another node of the same device, which has no name any more.
		struct stat node;
		if (stat(device, &node) || mknod("/dev/shm/skye-test-node", S_IFBLK | 0600, node.st_rdev))
			return 1;
		device = "/dev/shm/skye-test-node";
	}
	int file = open(device, O_RDONLY);
	if (!strcmp(way, "deleted"))
		unlink(device);
	if (file < 0)
		return 1;
	if (!strcmp(way, "mapped")) {
		if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
			return 1;
	} else {
		struct io_uring_params parameters = {0};
		int ring = syscall(SYS_io_uring_setup, 4, &parameters);
		if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1))
			return 1;
		if (!strcmp(way, "mapped-ring")) {
			if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, IORING_OFF_SQ_RING) == MAP_FAILED)
				return 1;
			close(ring);
		}
	}
	close(file);
	ready();
	for (;;)
		pause();
}
