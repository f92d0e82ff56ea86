package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
)

// defaultEvery is the interval of a policy that says only where to.
const defaultEvery = "10m"

// Policy is the value of --checkpoint: DIR[,every=10m][,keep=N][,bandwidth=SIZE][,on=OCCASION]
// [,restore=on-boot].
type Policy struct {
	section *jobfile.Checkpoint
}

// policyKeys are the keys of a policy, for errors.
const policyKeys = "every, keep, bandwidth, on and restore"

// Set parses the value.
func (p *Policy) Set(value string) error {
	dir, settings, _ := strings.Cut(value, ",")
	if dir == "" {
		return errors.New("it begins with the directory")
	}
	// The program may change its directory, and {pid}, {rank} and {job} stay as they are.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	section := &jobfile.Checkpoint{Dir: dir}
	for setting := range strings.SplitSeq(settings, ",") {
		if setting == "" {
			continue
		}
		key, text, found := strings.Cut(setting, "=")
		if !found {
			return fmt.Errorf("%q is not KEY=VALUE; the keys are %s", setting, policyKeys)
		}
		switch key {
		case "every":
			section.Every = text
		case "keep":
			keep, err := strconv.Atoi(text)
			if err != nil {
				return errors.New("keep: it must be a whole number")
			}
			section.Keep = &keep
		case "bandwidth":
			section.Bandwidth = text
		case "on":
			section.On = append(section.On, strings.Split(text, "+")...)
		case "restore":
			section.Restore = text
		default:
			return fmt.Errorf("there is no key %q; the keys are %s", key, policyKeys)
		}
	}
	if section.Every == "" && len(section.On) == 0 {
		section.Every = defaultEvery
	}
	if _, err := section.Policy(); err != nil {
		return err
	}
	p.section = section
	return nil
}

// String is part of flag.Value.
func (p *Policy) String() string { return "" }

// text returns the policy in words, or "".
func (p Policy) text() string {
	if p.section == nil {
		return ""
	}
	text := "checkpoints"
	if p.section.Every != "" {
		text += " every " + p.section.Every
	}
	if len(p.section.On) > 0 {
		text += " on " + strings.Join(p.section.On, ", ")
	}
	return text + " into " + p.section.Dir
}

// job is PHOS_JOB as pos_cli writes it: JSON, which is YAML.
type job struct {
	JobName    string   `json:"job_name,omitempty"`
	LogPath    string   `json:"log_path,omitempty"`
	Checkpoint *section `json:"checkpoint,omitempty"`
}

type section struct {
	Dir       string   `json:"dir"`
	Every     string   `json:"every,omitempty"`
	Keep      *int     `json:"keep,omitempty"`
	Bandwidth string   `json:"bandwidth,omitempty"`
	On        []string `json:"on,omitempty"`
	Restore   string   `json:"restore,omitempty"`
}

// jobText returns the value of PHOS_JOB for a name and a policy, over an earlier value. The worker
// parses it, so it is parsed here too: errors are reported before the program starts.
func jobText(earlier, name string, policy Policy) (string, error) {
	file, err := jobfile.ParseVariable(earlier)
	if err != nil {
		return "", err
	}
	file = file.With(jobfile.File{JobName: name, Checkpoint: policy.section})
	written := job{JobName: file.JobName, LogPath: file.LogPath}
	if c := file.Checkpoint; c != nil {
		written.Checkpoint = &section{c.Dir, c.Every, c.Keep, c.Bandwidth, c.On, c.Restore}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(written); err != nil {
		return "", err
	}
	value := strings.TrimSuffix(text.String(), "\n")
	_, err = jobfile.ParseVariable(value)
	var wrong *jobfile.Error
	if errors.As(err, &wrong) && wrong.Field == "job_name" {
		err = fmt.Errorf("--name: %s", wrong.Text)
	}
	return value, err
}

// PolicyUsage describes the value of --checkpoint.
var PolicyUsage = fmt.Sprintf(
	"save the program by itself, as `POLICY` says: DIR[,every=%s][,keep=%d][,bandwidth=500MiB][,on=%s+%s][,restore=%s]",
	defaultEvery, config.DefaultKeep, config.ExitSignal, config.Drain, config.OnBoot,
)
