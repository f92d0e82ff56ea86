package tcpowner

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// established is the number of that state, in the tables and in TCP_INFO.
const established = 1

// entry is a socket as the tables have it.
type entry struct {
	pair
	state uint64
	uid   uint32
	inode uint64
}

// entries are the sockets of both ends of one connection: usually two.
type entries []entry

// list reads the sockets of this process's network namespace that are an end of one connection.
func list(own pair) (found entries, err error) {
	// A socket of version 6 can be the end of a connection of version 4. The namespace is that of the
	// thread: that of /proc/self is the first thread's, which may have been moved to another one.
	for i, path := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		more, err := listFile(path, own)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			continue // the kernel has no version 6
		}
		if err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
		found = append(found, more...)
	}
	return found, nil
}

// listFile reads one table.
func listFile(path string, own pair) (entries, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file, own)
}

// read finds the ends of a connection in the text of a table. A socket that is listed twice,
// because others were closed while the kernel wrote the list, counts once.
func read(text io.Reader, own pair) (found entries, err error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		e, ok := parse(lines.Text())
		isEnd := e.pair == own || e.pair == pair{own.remote, own.local}
		if ok && isEnd && !slices.Contains(found, e) {
			found = append(found, e)
		}
	}
	return found, lines.Err()
}

// peer returns the user of the one socket that is the other end of own, whose inode is this.
func (es entries) peer(own pair, inode uint64) (uid uint32, err error) {
	var here, there entries
	for _, e := range es {
		switch {
		case e.state != established || e.inode == 0:
		case e.pair == own && e.inode == inode:
			here = append(here, e)
		case e.pair == pair{own.remote, own.local} && e.inode != inode:
			there = append(there, e)
		}
	}
	switch {
	case len(here) == 0 || len(there) == 0:
		return 0, errMissed
	case len(here) > 1 || len(there) > 1:
		return 0, fmt.Errorf("%w: %d sockets may be the other end", ErrUnknown, len(there))
	}
	return there[0].uid, nil
}

// parse reads a line of a table:
//
//	sl local remote state queues timer retransmits uid timeout inode ...
func parse(line string) (e entry, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 {
		return entry{}, false
	}
	var errs [5]error
	e.local, errs[0] = parseAddress(fields[1])
	e.remote, errs[1] = parseAddress(fields[2])
	e.state, errs[2] = strconv.ParseUint(fields[3], 16, 8)
	uid, err := strconv.ParseUint(fields[7], 10, 32)
	e.uid, errs[3] = uint32(uid), err
	e.inode, errs[4] = strconv.ParseUint(fields[9], 10, 64)
	if errors.Join(errs[:]...) != nil {
		return entry{}, false
	}
	return e, true
}

// parseAddress reads an address such as 0100007F:1F90: words of 32 bits that the kernel prints as
// numbers, although their bytes are in the order of the network.
func parseAddress(text string) (netip.AddrPort, error) {
	digits, portText, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(digits) != 8 && len(digits) != 32 {
		return netip.AddrPort{}, fmt.Errorf("an address of %d digits", len(digits))
	}
	var bytes []byte
	for ; digits != ""; digits = digits[8:] {
		word, err := strconv.ParseUint(digits[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, err
		}
		bytes = binary.NativeEndian.AppendUint32(bytes, uint32(word))
	}
	address, _ := netip.AddrFromSlice(bytes)
	return plain(netip.AddrPortFrom(address, uint16(port))), nil
}
