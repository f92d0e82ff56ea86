package hostcopy

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The format of CRIU's pagemap-PID.img: two magic numbers, then protobuf messages, each behind its
// size: first pagemap_head, then a pagemap_entry for each run of pages.
const (
	commonMagic  = 0x54564319
	pagemapMagic = 0x56084025

	headPagesID = 1

	entryAddress = 1
	entryCompat  = 2 // the number of pages, in 32 bits
	entryFlags   = 4
	entryPages   = 5

	inPagesImage = 1 << 2 // PE_PRESENT
)

// pagemapName and pagesName are the names of the images of a process, by its pid in its own
// namespace.
func pagemapName(pid int) string { return fmt.Sprintf("pagemap-%d.img", pid) }
func pagesName(pid int) string   { return fmt.Sprintf("pages-%d.img", pid) }

// encodePagemap returns the list of pages whose content is in pages-ID.img, in this order.
func encodePagemap(id int, all []run, page uint64) []byte {
	image := binary.LittleEndian.AppendUint32(nil, commonMagic)
	image = binary.LittleEndian.AppendUint32(image, pagemapMagic)
	image = appendMessage(image, appendNumber(nil, headPagesID, uint64(id)))
	for _, each := range all {
		count := (each.end - each.start) / page
		entry := appendNumber(nil, entryAddress, each.start)
		entry = appendNumber(entry, entryCompat, min(count, math.MaxUint32))
		entry = appendNumber(entry, entryFlags, inPagesImage)
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
