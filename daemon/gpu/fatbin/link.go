package fatbin

import "encoding/binary"

// The container that cuLinkComplete gives the program: PTX texts that make up one program. The shim builds the same.
const (
	linkMagic       = "\x7fPHOSLNK"
	linkVersion     = 1
	linkHeaderBytes = 16
)

func parseLink(data []byte) (*Images, error) {
	if len(data) < linkHeaderBytes {
		return nil, refuse(0, ErrTruncated, "link container header")
	}
	if version := binary.LittleEndian.Uint32(data[8:]); version != linkVersion {
		return nil, refuse(8, ErrVersion, "link container version %d", version)
	}
	count := binary.LittleEndian.Uint32(data[12:])
	if count == 0 || count > MaxEntries {
		return nil, refuse(12, ErrTooLarge, "%d texts, 1 to %d possible", count, MaxEntries)
	}
	images := &Images{}
	at := uint64(linkHeaderBytes)
	for range count {
		if uint64(len(data))-at < 8 {
			return nil, refuse(at, ErrTruncated, "length of a text")
		}
		size := binary.LittleEndian.Uint64(data[at:])
		at += 8
		padded := (size + 7) &^ 7
		if size > MaxEntryBytes || padded > uint64(len(data))-at {
			return nil, refuse(at-8, ErrTruncated, "text of %d bytes, %d left", size, uint64(len(data))-at)
		}
		images.Linked = append(images.Linked, newText(data[at:at+size], 0).PTX)
		at += padded
	}
	return images, nil
}

// Link packs PTX texts into a container.
func Link(texts []string) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(linkMagic), linkVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(texts)))
	for _, text := range texts {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(text)))
		out = append(out, text...)
		out = append(out, make([]byte, -len(text)&7)...)
	}
	return out
}
