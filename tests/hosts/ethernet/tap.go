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
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, virtioBytes); err != nil {
		return err
	}
	const offload = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload|tunnels) == nil {
		return nil
	}
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload) // a kernel before 6.17
}

// tunnels leaves the segmentation of what is sent through tunnels to the receiving kernel, too:
// TUN_F_USO4, TUN_F_USO6, TUN_F_UDP_TUNNEL_GSO and TUN_F_UDP_TUNNEL_GSO_CSUM.
const tunnels = 0x20 | 0x40 | 0x80 | 0x100
