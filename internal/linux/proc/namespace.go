package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrEnding is returned while a process is exiting, but not yet a zombie.
var ErrEnding = errors.New("process is still exiting")

// Namespace returns the namespace of a process: "pid:[4026531836]".
func (id Identity) Namespace(kind string) (string, error) {
	return os.Readlink(Path(id.PID, "ns/"+kind))
}

// thread is the directory of the calling thread, which may be in other namespaces than the first
// thread of the process.
const thread = "/proc/thread-self"

// OwnNamespace returns the namespace of the calling thread.
func OwnNamespace(kind string) (string, error) { return os.Readlink(thread + "/ns/" + kind) }

// OpenNamespace opens the namespace of a process, to enter it.
func OpenNamespace(pid int, kind string) (*os.File, error) { return os.Open(Path(pid, "ns/"+kind)) }

// NetworkOwner returns the user that has made the user namespace to which the network namespace of
// a process belongs.
func NetworkOwner(pid int) (uid uint32, err error) {
	network, err := OpenNamespace(pid, "net")
	if err != nil {
		return 0, err
	}
	defer network.Close()
	return OwnerOf(network)
}

// OwnerOf returns the user that has made the user namespace to which a namespace belongs.
func OwnerOf(namespace *os.File) (uid uint32, err error) {
	users, err := unix.IoctlRetInt(int(namespace.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return 0, fmt.Errorf("owner of a namespace: %w", err)
	}
	defer unix.Close(users)
	uid, err = unix.IoctlGetUint32(users, unix.NS_GET_OWNER_UID)
	if err != nil {
		return 0, fmt.Errorf("owner of a namespace: %w", err)
	}
	return uid, nil
}

// SetNetwork changes a setting of the network namespace of the calling thread: ipv4/ip_forward.
func SetNetwork(name, value string) error {
	return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)
}

// OpenOwnNamespace opens the namespace of the calling thread.
func OpenOwnNamespace(kind string) (*os.File, error) { return os.Open(thread + "/ns/" + kind) }

// NamespaceInode returns the inode number of a namespace of the calling thread; 0 if unknown.
func NamespaceInode(kind string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(thread+"/ns/"+kind, &stat) != nil {
		return 0
	}
	return stat.Ino
}

// Namespaces returns the namespaces of a process by kind, or, with pid 0, those of the calling
// thread. Kinds that the kernel does not know are left out.
func Namespaces(pid int, kinds []string) (map[string]string, error) {
	process := thread
	if pid != 0 {
		process = "/proc/" + strconv.Itoa(pid)
	}
	found := map[string]string{}
	for _, kind := range kinds {
		target, err := os.Readlink(process + "/ns/" + kind)
		if _, gone := os.Stat(process); Gone(err) && Gone(gone) {
			return nil, err
		}
		if err == nil {
			found[kind] = target
		}
	}
	// The kernel drops all namespaces at once: if one is left, all were there.
	if _, err := os.Readlink(process + "/ns/mnt"); errors.Is(err, unix.ENOENT) {
		return nil, ErrEnding
	}
	return found, nil
}
