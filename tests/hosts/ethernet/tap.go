package ethernet

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTap makes a tap device of that name in the network namespace of the calling thread. The
// device is gone when the file is closed, or the process ends.
func OpenTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := makeTap(fd, name); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make the tap device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// makeTap makes the device of an open file. Checksums and segmentation are left to the receiving
// kernel, which omits both: the frames never leave this machine.
func makeTap(fd int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6)
}
