package server

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// revisionBump is by how much the revisions of a restored store are higher than those of its
// snapshot, so that they are higher than all that the lost store has given out since. Clients that
// watch from a revision of the lost store are told that it was compacted, and list again; etcd's
// documentation recommends this number.
const revisionBump = 1_000_000_000

// Restore makes a data directory from a snapshot, for Start with the same configuration. Each of
// several members restores the same snapshot; all of them begin a new history. The directory must
// not hold an etcd. After an error it holds none either.
//
// The leader of the time of the snapshot leads for one lease after the start, by its old epoch.
func Restore(path string, config Config) error {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return err
	}
	if err := checkSnapshot(path); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	dir, err := openDirectory(config.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	if dir.holdsMember() {
		return fmt.Errorf("restore the store: %s holds an etcd already; move it away first", config.DataDir)
	}
	if err := dir.restore(path, config); err != nil {
		return fmt.Errorf("restore the store into %s: %w", config.DataDir, err)
	}
	return nil
}

// restore unpacks a snapshot beside the place of the member, and renames it.
func (d *directory) restore(path string, config Config) error {
	embedded, err := config.embedded(streams{}.intercept)
	if err != nil {
		return err
	}
	work := d.inside("restoring")
	if err := os.RemoveAll(work); err != nil { // of a restore that was killed
		return err
	}
	defer os.RemoveAll(work)
	fault := newFault()
	err = fault.run(func() error {
		return snapshot.NewV3(newLogger(config.Log, fault)).Restore(snapshot.RestoreConfig{
			SnapshotPath: path, OutputDataDir: work, Name: config.Name,
			PeerURLs:       []string{embedded.AdvertisePeerUrls[0].String()},
			InitialCluster: embedded.InitialCluster, InitialClusterToken: config.Cluster,
			RevisionBump: revisionBump, MarkCompacted: true,
		})
	})
	if err != nil {
		return err
	}
	if _, err := d.claim(marker{Cluster: config.Cluster, Member: config.Name}); err != nil {
		return err
	}
	if err := os.Rename(work+"/member", d.inside("member")); err != nil {
		return err
	}
	return d.file.Sync()
}

// Join makes a data directory with which Start begins as a new member of the etcd that runs, with
// nothing of its own: all comes from the other members. The etcd must have been told of it, by
// etcd.Store.ReplaceMember. The directory must not hold an etcd.
func Join(config Config) error {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return err
	}
	if config.Members == nil {
		return fmt.Errorf("%s has no other members to join", config.Name)
	}
	dir, err := openDirectory(config.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	if dir.holdsMember() {
		return fmt.Errorf("join with %s: it holds an etcd already; move it away first", config.DataDir)
	}
	return dir.mark(marker{Cluster: config.Cluster, Member: config.Name, Joins: true})
}

// checkSnapshot compares the hash at the end of a snapshot with its content.
func checkSnapshot(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	content := info.Size() - sha256.Size
	if content <= 0 {
		return fmt.Errorf("%w: %s has %d bytes", ErrSnapshot, path, info.Size())
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	_, err = io.Copy(sum, io.LimitReader(file, content))
	_, wantErr := io.ReadFull(file, want)
	if err := errors.Join(err, wantErr); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("%w: the hash at the end of %s is not that of its content", ErrSnapshot, path)
	}
	return nil
}
