package submit

import (
	"encoding"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/launch"
)

// jobName is the name of the job of a launch from the command line.
const jobName = "main"

// description is what flags say of a launch.
type description struct {
	spec    launch.Spec
	job     launch.Job
	process launch.Process
	noQueue bool
	// given has the names of the flags that describe the launch and were set.
	given []string
}

// define defines the flags that describe a launch.
func (d *description) define(flags *flag.FlagSet) {
	text := func(name, usage string, set func(string) error) {
		flags.Func(name, usage, func(value string) error {
			d.given = append(d.given, name)
			return set(value)
		})
	}
	into := func(target *string) func(string) error { return func(v string) error { *target = v; return nil } }
	list := func(target *[]string) func(string) error {
		return func(v string) error { *target = append(*target, strings.Split(v, ",")...); return nil }
	}
	parsed := func(target encoding.TextUnmarshaler) func(string) error {
		return func(v string) error { return target.UnmarshalText([]byte(v)) }
	}
	text("name", "`NAME` of the launch", into(&d.spec.Name))
	text("replicas", "`N` replicas, or a range as 4..8: it starts with the least", parsed(&d.job.Replicas))
	text("gpus", "`N` GPUs for each replica", number(&d.process.Resources.GPUs))
	text("gpu-model", "`MODEL` of the GPUs, as a100 or rtx3090; several, separated by commas: any of them",
		list(&d.process.Resources.GPUModels))
	text("gpu-memory", "`SIZE` that each GPU has at least, as 40GiB", parsed(&d.process.Resources.GPUMemory))
	text("cpus", "`N` CPUs for each replica, as 8 or 0.5", parsed(&d.process.Resources.CPUs))
	text("memory", "`SIZE` of memory for each replica, as 32GiB", parsed(&d.process.Resources.Memory))
	text("env", "set `NAME=VALUE` for the processes; may be repeated", d.setVariable)
	text("dir", "`DIR` below the directory that is shipped, where the command starts", into(&d.process.Directory))
	text("priority", "`N`: higher is more urgent, 0 is normal", number(&d.spec.Priority))
	text("time-limit", "end it after `TIME`, as 12h or 7d; waiting does not count", parsed(&d.spec.TimeLimit))
	text("retries", "start a failed replica `N` times more", number(&d.job.Retries))
	text("retry-on", "only after these exit `CODES`, separated by commas", d.setRetryOn)
	text("on-failure", "`ACTION` when a replica has failed for good: stop or continue", func(v string) error {
		d.job.OnReplicaFailure = launch.OnFailure(v)
		return nil
	})
	text("after", "queue it when launch `ID` has completed; may be repeated", list(&d.spec.After))
	text("port", "reserve a port `NAME`, whose number is in PHOS_PORT_NAME; may be repeated", list(&d.process.Ports))
	text("array", "one launch for each `K=V1,V2`; {K} in the command is replaced; may be repeated", d.setArray)
	text("host", "only on the nodes `HOST`; several, separated by commas", list(&d.spec.Place.Hostnames))
	text("git", "take the code from the repository `URL`", into(&d.spec.Source.Git))
	text("branch", "`BRANCH` of the repository", into(&d.spec.Source.Branch))
	text("commit", "`COMMIT` of the repository", into(&d.spec.Source.Commit))
	text("network", "`KIND`: host, or own: replicas keep addresses of their own, and connections between them are saved",
		into((*string)(&d.spec.Network)))
	flags.BoolVar(&d.spec.Place.WholeNodes, "whole-nodes", false, "no other launch on its nodes")
	flags.BoolVar(&d.noQueue, "no-queue", false, "fail if there is no room now")
}

// number returns what sets a number.
func number(target *int) func(string) error {
	return func(value string) (err error) {
		if *target, err = strconv.Atoi(value); err != nil {
			return errors.New("want a whole number")
		}
		return nil
	}
}

// setVariable sets NAME=VALUE. NAME alone takes the caller's value.
func (d *description) setVariable(text string) error {
	name, value, given := strings.Cut(text, "=")
	if !given {
		if value, given = os.LookupEnv(name); !given {
			return fmt.Errorf("%.60q is not set here; want NAME=VALUE", name)
		}
	}
	if d.spec.Variables == nil {
		d.spec.Variables = map[string]string{}
	}
	d.spec.Variables[name] = value
	return nil
}

// setRetryOn sets exit codes.
func (d *description) setRetryOn(text string) error {
	for each := range strings.SplitSeq(text, ",") {
		code, err := strconv.Atoi(each)
		if err != nil {
			return fmt.Errorf("%.60q is no exit code", each)
		}
		d.job.RetryOn = append(d.job.RetryOn, code)
	}
	return nil
}

// setArray sets the values of a parameter.
func (d *description) setArray(text string) error {
	name, values, given := strings.Cut(text, "=")
	if !given || name == "" {
		return fmt.Errorf("%.60q: want NAME=VALUE1,VALUE2", text)
	}
	if d.spec.Array == nil {
		d.spec.Array = map[string][]launch.Value{}
	}
	for each := range strings.SplitSeq(values, ",") {
		d.spec.Array[name] = append(d.spec.Array[name], launch.Value(each))
	}
	return nil
}

// read returns the launch that the arguments describe: those of a command after "--", or a file.
func (d *description) read(arguments []string) (spec launch.Spec, script []byte, err error) {
	switch {
	case len(arguments) == 0:
		return spec, nil, &verb.UsageError{Text: "name a launch file, or a command: phos launch [flags] -- CMD"}
	case isFile(arguments[0]) && len(arguments) > 1:
		return spec, nil, &verb.UsageError{Text: fmt.Sprintf("%q follows the launch file; flags stand before it", arguments[1])}
	case isFile(arguments[0]):
		if len(d.given) > 0 || d.noQueue || d.spec.Place.WholeNodes {
			return spec, nil, &verb.UsageError{Text: "a launch file says everything; flags that describe a launch need a command"}
		}
		return readFile(arguments[0])
	}
	d.process.Command = arguments
	d.job.Name, d.job.Processes = jobName, []launch.Process{d.process}
	if d.job.Replicas.Min == 0 {
		d.job.Replicas = launch.Replicas{Min: 1, Max: 1}
	}
	d.spec.Jobs = []launch.Job{d.job}
	if d.noQueue {
		d.spec.Queue = launch.Refuse
	}
	return d.spec, nil, nil
}

// isFile reports whether the first argument is a launch file and no command.
func isFile(argument string) bool {
	extension := filepath.Ext(argument)
	return extension == ".toml" || extension == ".json"
}

// readFile reads a launch file.
func readFile(path string) (spec launch.Spec, script []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return spec, nil, fmt.Errorf("launch file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > launch.MaxBytes {
		return spec, nil, fmt.Errorf("launch file %s: want a regular file of at most %d bytes", path, launch.MaxBytes)
	}
	if script, err = os.ReadFile(path); err != nil {
		return spec, nil, fmt.Errorf("launch file: %w", err)
	}
	read := launch.ReadTOML
	if filepath.Ext(path) == ".json" {
		read = launch.ReadJSON
	}
	if spec, err = read(script); err != nil {
		return spec, nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, script, nil
}
