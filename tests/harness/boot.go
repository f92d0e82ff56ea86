package harness

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/daemon/api"
)

// BootRecords returns the paths of phosd's records of programs that it restores after a restart of
// the machine.
func (d *Daemon) BootRecords() []string {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(d.State, "records/programs/*.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// NewBoot is Reboot, and makes phosd see another boot than before. The caller has killed phosd, and
// then the programs.
func (d *Daemon) NewBoot() {
	d.t.Helper()
	for _, path := range d.BootRecords() {
		text, err := os.ReadFile(path)
		if err != nil {
			d.t.Fatal(err)
		}
		record := map[string]any{}
		if err = json.Unmarshal(text, &record); err == nil {
			for _, key := range []string{"boot", "restored_in", "failed_in"} {
				if record[key] != nil {
					record[key] = "00000000-0000-0000-0000-000000000000"
				}
			}
			text, err = json.Marshal(record)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	d.Reboot()
}

// BootRestore returns what became of the program of an image since the last NewBoot.
func (d *Daemon) BootRestore(dir string) *api.BootRestore {
	d.t.Helper()
	for _, each := range d.Status().GetBootRestores() {
		if each.GetDir() == dir {
			return each
		}
	}
	return &api.BootRestore{}
}
