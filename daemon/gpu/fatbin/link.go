package fatbin

import "encoding/binary"

// The container that cuLinkComplete returns: PTX texts that make up one program. The shim builds
// the same. The shim uses version 2 for a separately compiled program: a linked fat binary,
// followed by its parts.
const (
	linkMagic       = "\x7fPHOSLNK"
	linkVersion     = 1
	linkFatbins     = 2
	linkHeaderBytes = 16
)

func parseLink(data []byte) (*Images, error) {
	if len(data) < linkHeaderBytes {
		return nil, refuse(0, ErrTruncated, "link container header")
	}
	version := binary.LittleEndian.Uint32(data[8:])
	if version != linkVersion && version != linkFatbins {
		return nil, refuse(8, ErrVersion, "link container version %d", version)
	}
	count := binary.LittleEndian.Uint32(data[12:])
	if count == 0 || count > MaxEntries {
		return nil, refuse(12, ErrTooLarge, "%d texts, 1 to %d possible", count, MaxEntries)
	}
	entries, err := linkEntries(data, count)
	switch {
	case err != nil:
		return nil, err
	case version == linkFatbins:
		return parseParts(entries)
	}
	images := &Images{}
	for _, entry := range entries {
		images.Linked = append(images.Linked, newText(entry, 0).PTX)
	}
	return images, nil
}

// linkEntries splits a container into its entries.
func linkEntries(data []byte, count uint32) (entries [][]byte, err error) {
	at := uint64(linkHeaderBytes)
	for range count {
		if uint64(len(data))-at < 8 {
			return nil, refuse(at, ErrTruncated, "length of a text")
		}
		size := binary.LittleEndian.Uint64(data[at:])
		at += 8
		padded := (size + 7) &^ 7
		if size > MaxImageBytes || padded > uint64(len(data))-at {
			return nil, refuse(at-8, ErrTruncated, "text of %d bytes, %d left", size, uint64(len(data))-at)
		}
		entries = append(entries, data[at:at+size])
		at += padded
	}
	return entries, nil
}

// parseParts reads a linked fat binary, which may be empty, and its parts.
func parseParts(entries [][]byte) (*Images, error) {
	var all []*Images
	unpacked := 0
	for _, entry := range entries {
		images := &Images{}
		if len(entry) > 0 {
			var err error
			if images, err = parseFatbin(entry); err != nil {
				return nil, err
			}
		}
		all = append(all, images)
		for _, text := range images.Texts {
			unpacked += len(text.PTX)
		}
		for _, cubin := range images.Cubins {
			unpacked += len(cubin.elf)
		}
		if unpacked > MaxUnpackedBytes {
			return nil, refuse(0, ErrTooLarge, "parts unpack to more than %d bytes", MaxUnpackedBytes)
		}
	}
	all[0].Parts = all[1:]
	return all[0], nil
}
