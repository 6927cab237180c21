// Keeps a device open in ways that the list of a process's own descriptors does not show: opener WAY DEVICE.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/loop.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

// Hands the open device from a process to its child, again and again, until nobody reads the output any more.
static int hand_on(long ns)
{
	struct pollfd output = {.fd = 1};
	struct timespec life = {.tv_nsec = ns};

	for (;;) {
		if (ppoll(&output, 1, &life, NULL))
			return 0;
		if (fork())
			_exit(0);
	}
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
	if (!strcmp(way, "chain") || !strcmp(way, "slow-chain")) {
		ready();
		return hand_on(!strcmp(way, "chain") ? 300000 : 150000000);
	}
	if (!strcmp(way, "shift")) {
		// The loop device shows another part of its file, which is as long.
		struct loop_info64 info;
		if (ioctl(file, LOOP_GET_STATUS64, &info))
			return 1;
		info.lo_offset += 4096;
		if (ioctl(file, LOOP_SET_STATUS64, &info))
			return 1;
		close(file);
		ready();
		return 0;
	}
	if (!strcmp(way, "path")) {
		int path = open(device, O_PATH);
		close(file);
		ready();
		for (;;)
			pause();
	}
	if (!strcmp(way, "memory")) {
		// The file of this loop device is in memory, and has no path.
		int memory = memfd_create("skye-test", 0);
		if (memory < 0 || ftruncate(memory, 9437184 + 4096 * 3) || ioctl(file, LOOP_SET_FD, memory))
			return 1;
		close(memory);
		close(file);
		ready();
		for (;;)
			pause();
	}
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
