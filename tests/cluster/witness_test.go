package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// witnesses is the variable that makes this program a witness: a process of a launch that writes
// down when it runs, as which user, and where. It holds the directory of the records.
const witnesses = "WITNESSES"

// beat is how often a witness writes the time, at most.
const beat = 10 * time.Millisecond

// lastAt is where a record has the last time that its process has written, behind the testimony.
const lastAt = 1024

// testimony is what a process says of itself. No other process of its launch has the same Name.
type testimony struct {
	Launch, Job, Replica, Process, Attempt string
	Generation                             int
	Node                                   string
	GPUs                                   []string
	Began, Last                            time.Time `json:",omitzero"`
}

// Name is what tells the process from all others that were ever to be started.
func (t testimony) Name() string {
	return strings.Join([]string{t.Launch, t.Job, t.Replica, t.Process, t.Attempt}, "-")
}

// Place is what only one process may be at a time.
func (t testimony) Place() string {
	return strings.Join([]string{t.Launch, t.Job, t.Replica, t.Process}, "-")
}

// own returns the testimony of this process, from the variables that phos has set.
func own() testimony {
	generation, _ := strconv.Atoi(os.Getenv("PHOS_GENERATION"))
	return testimony{
		Launch: os.Getenv("PHOS_LAUNCH_ID"), Job: os.Getenv("PHOS_JOB_NAME"), Replica: os.Getenv("PHOS_REPLICA"),
		Process: os.Getenv("PHOS_PROCESS"), Attempt: os.Getenv("PHOS_ATTEMPT"), Generation: generation,
		Node: os.Getenv("PHOS_NODE"), Began: time.Now(),
		GPUs: strings.FieldsFunc(os.Getenv("PHOS_GPUS"), func(r rune) bool { return r == ',' }),
	}
}

// testify is the program of a witness: FATE MILLISECONDS. It returns its exit status. An attempt
// that is started twice finds the record of the first, and says so by one of its own.
func testify(directory string, arguments []string) int {
	fate, duration := arguments[0], 24*time.Hour
	if count, err := strconv.Atoi(arguments[1]); err == nil {
		duration = time.Duration(count) * time.Millisecond
	}
	me := own()
	record, err := begin(filepath.Join(directory, me.Name()), me)
	if errors.Is(err, os.ErrExist) {
		record, err = begin(filepath.Join(directory, me.Name()+"-twice"), me)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	for time.Since(me.Began) < duration {
		if err := write(record); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 99
		}
		time.Sleep(beat)
	}
	return exit(fate, filepath.Join(directory, "failed-"+me.Launch), me)
}

// exit returns the exit status. Of a launch that fails, replica 0 does: always, or once.
func exit(fate, mark string, me testimony) int {
	if fate == "completes" || me.Replica != "0" {
		return 0
	}
	if _, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); fate == "recovers" && err != nil {
		return 0
	}
	return 3
}

// begin creates a record.
func begin(path string, me testimony) (*os.File, error) {
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	record, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := record.Write(text); err != nil {
		return nil, err
	}
	return record, write(record)
}

// write writes the time into a record.
func write(record *os.File) error {
	_, err := record.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano())), lastAt)
	return err
}

// readTestimonies reads all records of a directory. A process that was killed between creating its
// record and filling it has run for an instant, and is left out.
func readTestimonies(t *testing.T, directory string) (all []testimony) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*-*-*-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "-twice") {
			t.Errorf("an attempt was started twice: %s", text)
		}
		if len(text) < lastAt+8 {
			continue
		}
		var each testimony
		if err := json.Unmarshal([]byte(strings.TrimRight(string(text[:lastAt]), "\x00")), &each); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		each.Last = time.Unix(0, int64(binary.LittleEndian.Uint64(text[lastAt:])))
		all = append(all, each)
	}
	return all
}
