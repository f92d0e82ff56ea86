package image

import (
	"encoding/hex"
	"fmt"
)

// MarkerBytes is the length of the file that marks a directory as an image.
const MarkerBytes = 94

// Marker is the content of that file. It is text, so that it is understandable for people.
type Marker struct{ Store ID }

// Encode returns the marker's bytes.
func (m Marker) Encode() []byte {
	head := fmt.Sprintf("phos-image %04d\nstore %s\n", Version, m.Store)
	return fmt.Appendf(nil, "%scheck %s\n", head, hex.EncodeToString(check(16, []byte(head))))
}

// DecodeMarker decodes a marker.
func DecodeMarker(raw []byte) (Marker, error) {
	var version uint32
	var store string
	if len(raw) != MarkerBytes {
		return Marker{}, malformed("not an image marker")
	}
	if _, err := fmt.Sscanf(string(raw[:55]), "phos-image %04d\nstore %32s\n", &version, &store); err != nil {
		return Marker{}, malformed("not an image marker")
	}
	if err := checkVersion("image", version); err != nil {
		return Marker{}, err
	}
	id, err := ParseID(store)
	if m := (Marker{id}); err == nil && string(m.Encode()) == string(raw) {
		return m, nil
	}
	return Marker{}, malformed("the marker is damaged")
}
