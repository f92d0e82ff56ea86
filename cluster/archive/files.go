package archive

import (
	"archive/zip"
	"bytes"
	"context"
	"maps"
	"slices"
)

// Files packs files that are not on a disk, by their names.
func Files(content map[string][]byte) (*Packed, error) {
	var zipped bytes.Buffer
	writer := zip.NewWriter(&zipped)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		file, err := writer.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(content[name]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return FromZip(context.Background(), zipped.Bytes())
}
