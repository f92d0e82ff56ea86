package hosts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source returns the directory of the machine that the host sees as one that a reboot keeps.
func (h *Host) source(directory string) string {
	return filepath.Join(h.fleet.base, h.Name, directory)
}

// DiskPath returns where the test sees a file that a reboot keeps, also while the host is off.
func (h *Host) DiskPath(path string) string {
	h.t.Helper()
	for directory := range h.fleet.small {
		if below, found := strings.CutPrefix(path, directory+"/"); found {
			return filepath.Join(h.smallDisk(directory), below)
		}
	}
	for _, each := range kept {
		if below, found := strings.CutPrefix(path, each+"/"); found {
			return filepath.Join(h.source(each), below)
		}
	}
	h.t.Fatalf("%s is not on a disk: below %v are files that a reboot keeps", path, kept)
	return ""
}

// Shared returns where the test sees SharedDir.
func (h *Host) Shared() string { return h.fleet.shared() }

// bootIDSource is the file that the host sees as its boot id.
func (h *Host) bootIDSource() string { return filepath.Join(h.fleet.base, h.Name+".boot_id") }

// makeDisk makes a disk as of a host that was just installed: /etc is the machine's.
func (h *Host) makeDisk() error {
	for _, each := range kept {
		if err := errors.Join(os.RemoveAll(h.source(each)), os.MkdirAll(h.source(each), 0o755)); err != nil {
			return err
		}
	}
	if err := h.makeSmallDisks(); err != nil {
		return err
	}
	if output, err := exec.Command("cp", "-a", settings+"/.", h.source(settings)).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", settings, err, output)
	}
	for name, text := range map[string]string{
		"hostname": h.Name + "\n", "hosts": h.fleet.names(),
		"machine-id": strings.ReplaceAll(randomID(), "-", "") + "\n",
	} {
		path := filepath.Join(h.source(settings), name)
		// The machine's file may be a link to another place.
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// smallDisk returns where a small disk of the host is mounted on the machine.
func (h *Host) smallDisk(directory string) string {
	return filepath.Join(h.fleet.base, h.Name, "small", directory)
}

// makeSmallDisks makes the small disks empty.
func (h *Host) makeSmallDisks() error {
	for directory, bytes := range h.fleet.small {
		at := h.smallDisk(directory)
		if err := errors.Join(unmountFrom(filepath.Dir(at)), os.MkdirAll(at, 0o755)); err != nil {
			return err
		}
		if err := mount("tmpfs", at, "tmpfs", fmt.Sprintf("mode=755,size=%d", bytes)); err != nil {
			return err
		}
	}
	return nil
}

// bindSmallDisks makes them visible in the host.
func (h *Host) bindSmallDisks() error {
	for directory := range h.fleet.small {
		if err := errors.Join(os.MkdirAll(directory, 0o755), bind(h.smallDisk(directory), directory)); err != nil {
			return err
		}
	}
	return nil
}

// names returns the file of all names of hosts.
func (f *fleet) names() string {
	text := "127.0.0.1 localhost\n::1 localhost\n"
	for number := range Most {
		text += fmt.Sprintln(address(number), name(number))
	}
	return text
}

// newBootID changes the id that the host's next boot has.
func (h *Host) newBootID() error {
	// A new file: an earlier boot has mounted the old one.
	return errors.Join(os.RemoveAll(h.bootIDSource()), os.WriteFile(h.bootIDSource(), []byte(randomID()+"\n"), 0o444))
}

// randomID returns a random UUID.
func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
