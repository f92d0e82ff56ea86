package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// markerName is the file in a data directory that says what it belongs to.
const markerName = "phos.json"

// marker is the content of that file. etcd itself takes the names of the configuration only for a
// new directory, and would go on with whatever an old one holds.
type marker struct {
	Cluster string `json:"cluster"`
	Member  string `json:"member"`
	// Joins means that the etcd begins as a new member of one that runs already.
	Joins bool `json:"joins,omitempty"`
}

// claim checks that the directory belongs to a member, or makes it belong to it if it is new. It
// returns what the directory says.
func (d *directory) claim(want marker) (marker, error) {
	text, err := os.ReadFile(d.inside(markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return want, d.mark(want)
	}
	if err != nil {
		return marker{}, fmt.Errorf("read the data directory: %w", err)
	}
	found, err := readMarker(text)
	if err != nil {
		return marker{}, fmt.Errorf("read %s: %w", d.inside(markerName), err)
	}
	if found.Cluster != want.Cluster || found.Member != want.Member {
		return marker{}, fmt.Errorf("data directory %s: %w: member %.80q of cluster %.80q, not %s of %s",
			d.path, ErrForeign, found.Member, found.Cluster, want.Member, want.Cluster)
	}
	return found, nil
}

// mark writes the marker into a directory that holds no etcd.
func (d *directory) mark(m marker) error {
	if d.holdsMember() {
		return fmt.Errorf("data directory %s: %w: it has no %s", d.path, ErrForeign, markerName)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	next := d.inside(markerName + ".new")
	if err := writeSynced(next, append(text, '\n')); err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	if err := os.Rename(next, d.inside(markerName)); err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	return d.file.Sync()
}

// holdsMember reports whether an etcd has written into the directory.
func (d *directory) holdsMember() bool {
	_, err := os.Lstat(d.inside("member"))
	return err == nil
}

func readMarker(text []byte) (found marker, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&found); err != nil {
		return marker{}, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return marker{}, fmt.Errorf("%w: text after the marker", ErrForeign)
	}
	return found, nil
}

// writeSynced writes a file that is on the disk when it returns.
func writeSynced(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}
