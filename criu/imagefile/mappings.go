package imagefile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields in the images of a process's mappings (mm-PID.img) and of the tree of
// processes.
const (
	memoryProgram  = 12
	memoryMappings = 14

	mappingStart   = 1
	mappingEnd     = 2
	mappingFlags   = 6
	mappingStatus  = 7
	mappingAdvices = 9

	processPID    = 1
	processParent = 2
)

// Tree is the name of the image with the tree of processes.
const Tree = "pstree.img"

// What CRIU says of a mapping.
const (
	statusRegular     = 1 << 0
	statusAnonPrivate = 1 << 9
	statusSpecial     = 1<<2 | 1<<3 | 1<<12 | 1<<13 | 1<<15 | 1<<16 // vsyscall, vdso, vvar, AIO ring, shadow stack, guard
)

// Mappings are those of a process.
type Mappings struct {
	// Program is the file that the process runs.
	Program uint64
	All     []Mapping
}

// Mapping is a part of an address space.
type Mapping struct {
	Start, End    uint64
	flags, status uint64
	advices       uint64
}

// Lazy reports whether pages of the mapping may come after the process runs: they are private, of
// no file, not locked, and a child of a fork gets them. A stack is not lazy: it is small, used at
// once, and has the arguments that others read.
func (m *Mapping) Lazy() bool {
	const kept = unix.MAP_LOCKED | unix.MAP_HUGETLB | unix.MAP_GROWSDOWN
	return m.status&statusRegular != 0 && m.status&statusAnonPrivate != 0 && m.status&statusSpecial == 0 &&
		m.flags&unix.MAP_PRIVATE != 0 && m.flags&unix.MAP_ANONYMOUS != 0 && m.flags&kept == 0 &&
		m.advices&(1<<unix.MADV_WIPEONFORK) == 0
}

// Locked reports whether the program has asked that its pages stay in memory.
func (m *Mapping) Locked() bool { return m.flags&unix.MAP_LOCKED != 0 }

// ReadMappings reads the mappings of a process, in the order of addresses.
func ReadMappings(image []byte) (*Mappings, error) {
	var found Mappings
	page, last := uint64(os.Getpagesize()), uint64(0)
	err := Records(image, func(record []byte) error {
		return Fields(record, func(f Field) error {
			if f.Number == memoryProgram {
				found.Program = f.Value
			}
			if f.Number != memoryMappings || f.Kind != protowire.BytesType {
				return nil
			}
			m, err := readMapping(f.Bytes)
			if err != nil {
				return err
			}
			if m.Start < last || m.End < m.Start || m.Start%page != 0 || m.End%page != 0 {
				return fmt.Errorf("%w: a mapping from %#x to %#x", ErrMalformed, m.Start, m.End)
			}
			last = m.End
			found.All = append(found.All, m)
			return nil
		})
	})
	return &found, err
}

func readMapping(message []byte) (m Mapping, err error) {
	err = numbers(message, func(number protowire.Number, value uint64) {
		switch int(number) {
		case mappingStart:
			m.Start = value
		case mappingEnd:
			m.End = value
		case mappingFlags:
			m.flags = value
		case mappingStatus:
			m.status = value
		case mappingAdvices:
			m.advices = value
		}
	})
	return m, err
}

// ReadParents returns the parent of each process of a tree, by their pids in its own namespace.
func ReadParents(image []byte) (map[int]int, error) {
	parents := map[int]int{}
	err := Records(image, func(record []byte) error {
		var pid, parent int
		err := numbers(record, func(number protowire.Number, value uint64) {
			switch int(number) {
			case processPID:
				pid = int(value)
			case processParent:
				parent = int(value)
			}
		})
		parents[pid] = parent
		return err
	})
	return parents, err
}
