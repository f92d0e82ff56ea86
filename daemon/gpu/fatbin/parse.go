package fatbin

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// Limits for untrusted sizes. Real images are much smaller: the largest fat binary of cuBLAS is
// under 100 MB.
const (
	// MaxImageBytes bounds a whole image.
	MaxImageBytes = 1 << 30
	// MaxEntryBytes bounds one unpacked entry.
	MaxEntryBytes = 256 << 20
	// MaxUnpackedBytes bounds all entries of an image together that are unpacked at once: all but
	// compressed machine code.
	MaxUnpackedBytes = 1 << 30
	// MaxEntries bounds the entries of a fat binary and the texts of a link container.
	MaxEntries = 4096
)

// Parse unpacks an image of any of the known forms. Data behind the image's own length is ignored.
// The result shares memory with data where nothing was compressed.
func Parse(data []byte) (*Images, error) {
	if len(data) > MaxImageBytes {
		return nil, refuse(0, ErrTooLarge, "%d bytes, at most %d", len(data), MaxImageBytes)
	}
	switch {
	case len(data) >= 4 && binary.LittleEndian.Uint32(data) == binMagic:
		return parseFatbin(data)
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		return parseELF(data)
	case bytes.HasPrefix(data, []byte(linkMagic)):
		return parseLink(data)
	case looksLikeText(data):
		text := newText(data, 0)
		return &Images{Texts: []Text{text}}, nil
	}
	return nil, refuse(0, ErrUnknownFormat, "starts with % x", data[:min(len(data), 8)])
}

// looksLikeText accepts broken PTX, too, so that the PTX parser reports the error with line and
// column.
func looksLikeText(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '.' || trimmed[0] == '/' || trimmed[0] >= 'a' && trimmed[0] <= 'z')
}

// newText makes a Text of bytes that may end with NULs. sm is the container's claim, or 0.
func newText(data []byte, sm int) Text {
	if end := bytes.IndexByte(data, 0); end >= 0 {
		data = data[:end]
	}
	text := Text{SM: sm, PTX: string(data)}
	target := targetOf(text.PTX)
	text.Specific, text.Family = target.Specific, target.Family
	if sm == 0 {
		text.SM = target.SM
	}
	return text
}

// targetOf reads the .target directive: a Text with the architecture only. SM is 0 if it cannot be
// read.
func targetOf(ptx string) (target Text) {
	_, rest, found := strings.Cut(ptx, ".target")
	if !found {
		return target
	}
	_, rest, found = strings.Cut(rest[:min(len(rest), 64)], "sm_")
	if !found {
		return target
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	sm, err := strconv.Atoi(rest[:digits])
	if err != nil || sm > 9999 {
		return target
	}
	target.SM = sm
	target.Specific, target.Family = strings.HasPrefix(rest[digits:], "a"), strings.HasPrefix(rest[digits:], "f")
	return target
}
