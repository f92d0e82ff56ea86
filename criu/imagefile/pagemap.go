package imagefile

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// A pagemap-PID.img has two magic numbers, then messages, each behind its size: first pagemap_head,
// then a pagemap_entry for each run of pages.
const (
	pagemapMagic = 0x56084025

	headPagesID = 1

	entryAddress  = 1
	entryCompat   = 2 // the number of pages, in 32 bits
	entryInParent = 3 // what entryFlags says, of older CRIUs
	entryFlags    = 4
	entryPages    = 5

	flagParent  = 1 << 0 // PE_PARENT
	flagPresent = 1 << 2 // PE_PRESENT
)

// PagemapName is the name of a process's list of pages, by its pid in its own namespace.
func PagemapName(pid int) string { return fmt.Sprintf("pagemap-%d.img", pid) }

// PagesName is the name of the image with the content of pages, by the ID of a Pagemap.
func PagesName(id uint64) string { return fmt.Sprintf("pages-%d.img", id) }

// MappingsName is the name of the list of mappings of a process.
func MappingsName(pid int) string { return fmt.Sprintf("mm-%d.img", pid) }

// Pagemap lists the pages of a process whose content is in images.
type Pagemap struct {
	// ID is in the name of the image with the content.
	ID    uint64
	Pages []Pages
}

// Pages is a run of pages. Their content is in the pages image, behind that of all runs before,
// unless it is InParent: then the pagemap of the parent images has it.
type Pages struct {
	Start, End uint64
	InParent   bool
}

// EncodePagemap returns an image of a pagemap.
func EncodePagemap(p Pagemap) []byte {
	page := uint64(os.Getpagesize())
	image := binary.LittleEndian.AppendUint32(nil, CommonMagic)
	image = binary.LittleEndian.AppendUint32(image, pagemapMagic)
	image = appendMessage(image, appendNumber(nil, headPagesID, p.ID))
	for _, each := range p.Pages {
		count, flags := (each.End-each.Start)/page, uint64(flagPresent)
		if each.InParent {
			flags = flagParent
		}
		entry := appendNumber(nil, entryAddress, each.Start)
		entry = appendNumber(entry, entryCompat, min(count, math.MaxUint32))
		entry = appendNumber(entry, entryFlags, flags)
		image = appendMessage(image, appendNumber(entry, entryPages, count))
	}
	return image
}

func appendNumber(message []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(message, field, protowire.VarintType), value)
}

func appendMessage(image, message []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(image, uint32(len(message))), message...)
}

// ReadPagemap reads a pagemap. Its runs are in the order of addresses.
func ReadPagemap(image []byte) (*Pagemap, error) {
	if err := checkMagic(image, pagemapMagic); err != nil {
		return nil, err
	}
	var p Pagemap
	head, last := true, uint64(0)
	err := Records(image, func(record []byte) error {
		if head {
			head = false
			return numbers(record, func(number protowire.Number, value uint64) {
				if number == headPagesID {
					p.ID = value
				}
			})
		}
		pages, kept, err := readPages(record)
		if err != nil || !kept {
			return err
		}
		if pages.Start < last {
			return fmt.Errorf("%w: pages at %#x are out of order", ErrMalformed, pages.Start)
		}
		last = pages.End
		p.Pages = append(p.Pages, pages)
		return nil
	})
	return &p, err
}

// readPages reads one run. kept is false if no image has its content.
func readPages(record []byte) (run Pages, kept bool, err error) {
	var count, flags uint64
	wide, flagged := false, false
	if err := numbers(record, func(number protowire.Number, value uint64) {
		switch int(number) {
		case entryAddress:
			run.Start = value
		case entryCompat:
			if !wide {
				count = value
			}
		case entryPages:
			count, wide = value, true
		case entryInParent:
			run.InParent = run.InParent || value != 0
		case entryFlags:
			flags, flagged = value, true
		}
	}); err != nil {
		return run, false, err
	}
	page := uint64(os.Getpagesize())
	if run.Start%page != 0 || run.Start > math.MaxInt64 || count > (math.MaxInt64-run.Start)/page {
		return run, false, fmt.Errorf("%w: %d pages at %#x", ErrMalformed, count, run.Start)
	}
	run.End = run.Start + count*page
	run.InParent = run.InParent || flags&flagParent != 0
	return run, count > 0 && (run.InParent || !flagged || flags&flagPresent != 0), nil
}

// checkMagic checks the second magic number of an image; Records checks the first.
func checkMagic(image []byte, magic uint32) error {
	if len(image) < MagicBytes || binary.LittleEndian.Uint32(image[MagicBytes/2:]) != magic {
		return fmt.Errorf("%w: wrong magic number", ErrMalformed)
	}
	return nil
}

// numbers calls each for every number of a message.
func numbers(message []byte, each func(protowire.Number, uint64)) error {
	return Fields(message, func(f Field) error {
		if f.Kind == protowire.VarintType {
			each(f.Number, f.Value)
		}
		return nil
	})
}
