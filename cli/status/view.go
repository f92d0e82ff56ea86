package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/daemon/api"
)

// View is what --status --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type View struct {
	Daemon   daemonView    `json:"daemon"`
	GPUs     []gpuView     `json:"gpus"`
	Programs []programView `json:"programs"`
	// Limits are what the caller holds of what users share, and may hold; for root, of each user.
	Limits []limitView `json:"limits"`
	// BootRestores are the programs that phosd restores after a restart of the machine.
	BootRestores []bootRestoreView `json:"boot_restores"`
}

// bootRestoreView is a program that phosd restores after a restart of the machine.
type bootRestoreView struct {
	Dir   string `json:"dir"`
	User  string `json:"user"`
	UID   uint32 `json:"uid"`
	State string `json:"state"`
	// Error says why the last attempt failed.
	Error    string `json:"error"`
	Attempts uint32 `json:"attempts"`
	// PID is null if the program was not restored.
	PID *uint32 `json:"pid"`
}

// limitView is what a user holds of something, by the setting with the limit.
type limitView struct {
	User  string `json:"user"`
	UID   uint32 `json:"uid"`
	Key   string `json:"key"`
	What  string `json:"what"`
	Bytes bool   `json:"bytes"`
	Used  uint64 `json:"used"`
	// Limit is null if there is none.
	Limit *uint64 `json:"limit"`
}

type daemonView struct {
	Version       string    `json:"version"`
	PID           uint32    `json:"pid"`
	Socket        string    `json:"socket"`
	GPUs          string    `json:"gpus"`
	Started       time.Time `json:"started"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	Warnings      []string  `json:"warnings"`
	DriverVersion string    `json:"driver_version"`
	CUDAVersion   string    `json:"cuda_version"`
	DriverError   string    `json:"driver_error"`
	// StandbyWorkers counts the standby workers; StandbyBytes is their memory on each GPU.
	StandbyWorkers uint32   `json:"waiting_workers"`
	StandbyBytes   []uint64 `json:"waiting_bytes"`
}

type gpuView struct {
	Index       uint32 `json:"index"`
	Name        string `json:"name"`
	UUID        string `json:"uuid"`
	MemoryBytes uint64 `json:"memory_bytes"`
	UsedBytes   uint64 `json:"used_bytes"`
	Programs    uint32 `json:"programs"`
	// PIDs are the caller's programs among them.
	PIDs     []uint32      `json:"pids"`
	Hardware *hardwareView `json:"hardware"`
}

// hardwareView is a real GPU as its driver reports it; an unknown value is null.
type hardwareView struct {
	BusID             string        `json:"bus_id"`
	State             string        `json:"state"`
	Lost              string        `json:"lost"`
	MemoryBytes       *uint64       `json:"memory_bytes"`
	UsedBytes         *uint64       `json:"used_bytes"`
	FreeBytes         *uint64       `json:"free_bytes"`
	BusyPercent       *uint32       `json:"busy_percent"`
	MemoryBusyPercent *uint32       `json:"memory_busy_percent"`
	Temperature       *uint32       `json:"temperature_celsius"`
	PowerMilliwatts   *uint32       `json:"power_milliwatts"`
	PowerLimit        *uint32       `json:"power_limit_milliwatts"`
	ComputeMode       string        `json:"compute_mode"`
	MIG               *bool         `json:"mig"`
	ECC               *bool         `json:"ecc"`
	UncorrectedErrors *uint64       `json:"uncorrected_errors"`
	Links             uint32        `json:"links"`
	ActiveLinks       uint32        `json:"active_links"`
	Foreign           []foreignView `json:"foreign"`
	Events            []eventView   `json:"events"`
}

// foreignView is a process on a GPU that does not run through phos.
type foreignView struct {
	PID       uint32  `json:"pid"`
	User      string  `json:"user"`
	Command   string  `json:"command"`
	UsedBytes *uint64 `json:"used_bytes"`
	Graphics  bool    `json:"graphics"`
}

type eventView struct {
	Xid          uint64     `json:"xid"`
	Text         string     `json:"text"`
	Time         *time.Time `json:"time"`
	ProgramFault bool       `json:"program_fault"`

	age time.Duration
}

type programView struct {
	PID uint32 `json:"pid"`
	// RootPID is the pid to name for a checkpoint of the program with those it works with.
	RootPID        uint32       `json:"root_pid"`
	Session        uint64       `json:"session"`
	Job            string       `json:"job"`
	State          string       `json:"state"`
	User           string       `json:"user"`
	UID            uint32       `json:"uid"`
	Command        string       `json:"command"`
	GPUs           []uint32     `json:"gpus"`
	MemoryBytes    uint64       `json:"memory_bytes"`
	PinnedBytes    uint64       `json:"pinned_bytes"`
	CallsMade      uint64       `json:"calls_made"`
	CallsCompleted uint64       `json:"calls_completed"`
	CallsAwaited   uint64       `json:"calls_awaited"`
	Pending        *pendingView `json:"pending"`
	Kernels        []string     `json:"kernels"`
	// KernelNames are the names of Kernels as sources have them.
	KernelNames    []string       `json:"kernel_names"`
	Rank           *uint32        `json:"rank"`
	WorldSize      *uint32        `json:"world_size"`
	Started        time.Time      `json:"started"`
	LastCheckpoint *time.Time     `json:"last_checkpoint"`
	Checkpoint     checkpointView `json:"checkpoint"`
	WorkerPID      uint32         `json:"worker_pid"`
	LogPath        string         `json:"log_path"`
	JobFileError   string         `json:"job_file_error"`
	Fault          string         `json:"fault"`

	age time.Duration
}

// checkpointView is a program's last checkpoint, its last failure, and its next one.
type checkpointView struct {
	AgeSeconds *int64      `json:"age_seconds"`
	Dir        string      `json:"dir"`
	Generation *uint64     `json:"generation"`
	Running    bool        `json:"running"`
	Error      string      `json:"error"`
	Failed     *time.Time  `json:"failed"`
	Next       *time.Time  `json:"next"`
	Policy     *policyView `json:"policy"`

	age, untilNext, sinceFailed time.Duration
}

type policyView struct {
	Dir            string   `json:"dir"`
	EverySeconds   float64  `json:"every_seconds"`
	Keep           uint64   `json:"keep"`
	BandwidthBytes uint64   `json:"bandwidth_bytes"`
	On             []string `json:"on"`
	RestoreOnBoot  bool     `json:"restore_on_boot"`
}

type pendingView struct {
	Call         string `json:"call"`
	Stream       uint64 `json:"stream"`
	Milliseconds uint64 `json:"milliseconds"`
}

// Of converts phosd's answer.
func Of(reply *api.StatusReply, now time.Time) View {
	daemon := reply.GetDaemon()
	started := time.UnixMilli(daemon.GetStartedUnixMilliseconds())
	view := View{
		Daemon: daemonView{
			Version: daemon.GetVersion(), PID: daemon.GetPid(), Socket: daemon.GetSocket(), GPUs: daemon.GetGpus(),
			Started: started, UptimeSeconds: int64(now.Sub(started).Seconds()),
			StandbyWorkers: daemon.GetWaitingWorkers(), StandbyBytes: append([]uint64{}, daemon.GetWaitingBytes()...),
			Warnings:      list(daemon.GetWarnings()),
			DriverVersion: humanize.Printable(daemon.GetDriverVersion()),
			CUDAVersion:   cudaText(daemon.GetCudaVersion()),
			DriverError:   humanize.Printable(daemon.GetDriverError()),
		},
		GPUs:     []gpuView{},
		Programs: []programView{},
		Limits:   []limitView{},

		BootRestores: []bootRestoreView{},
	}
	for _, each := range reply.GetBootRestores() {
		restore := bootRestoreView{
			Dir: humanize.Printable(each.GetDir()), User: each.GetUser(), UID: each.GetUid(), State: each.GetState(),
			Error: humanize.Printable(each.GetError()), Attempts: each.GetAttempts(),
		}
		if pid := each.GetPid(); pid != 0 {
			restore.PID = &pid
		}
		view.BootRestores = append(view.BootRestores, restore)
	}
	for _, use := range reply.GetUses() {
		view.Limits = append(view.Limits, limitView{
			User: use.GetUser(), UID: use.GetUid(), Key: use.GetKey(), What: use.GetWhat(), Bytes: use.GetBytes(),
			Used: use.GetUsed(), Limit: use.Limit,
		})
	}
	for _, gpu := range reply.GetGpus() {
		view.GPUs = append(view.GPUs, gpuView{
			Index: gpu.GetIndex(), Name: gpu.GetName(), UUID: gpu.GetUuid(),
			MemoryBytes: gpu.GetMemoryBytes(), UsedBytes: gpu.GetUsedBytes(), Programs: gpu.GetPrograms(),
			PIDs: append([]uint32{}, gpu.GetPids()...), Hardware: hardwareOf(gpu.GetHardware(), now),
		})
	}
	for _, program := range reply.GetPrograms() {
		view.Programs = append(view.Programs, programOf(program, now))
	}
	return view
}

// hardwareOf returns nil for a GPU without hardware data.
func hardwareOf(hardware *api.Hardware, now time.Time) *hardwareView {
	if hardware == nil {
		return nil
	}
	view := &hardwareView{
		BusID: humanize.Printable(hardware.GetBusId()), Lost: humanize.Printable(hardware.GetLost()),
		MemoryBytes: hardware.MemoryBytes, UsedBytes: hardware.UsedBytes, FreeBytes: hardware.FreeBytes,
		BusyPercent: hardware.BusyPercent, MemoryBusyPercent: hardware.MemoryBusyPercent,
		Temperature:     hardware.TemperatureCelsius,
		PowerMilliwatts: hardware.PowerMilliwatts, PowerLimit: hardware.PowerLimitMilliwatts,
		ComputeMode: humanize.Printable(hardware.GetComputeMode()), MIG: hardware.Mig, ECC: hardware.Ecc, UncorrectedErrors: hardware.UncorrectedErrors,
		Links: hardware.GetLinks(), ActiveLinks: hardware.GetActiveLinks(), Foreign: []foreignView{}, Events: []eventView{},
	}
	for _, p := range hardware.GetForeign() {
		view.Foreign = append(
			view.Foreign,
			foreignView{
				p.GetPid(),
				humanize.Printable(p.GetUser()),
				humanize.Printable(p.GetCommand()),
				p.UsedBytes,
				p.GetGraphics(),
			},
		)
	}
	for _, e := range hardware.GetEvents() {
		at := optionalTime(e.GetUnixMilliseconds())
		each := eventView{
			Xid:          e.GetXid(),
			Text:         humanize.Printable(e.GetText()),
			Time:         at,
			ProgramFault: e.GetProgramFault(),
		}
		if at != nil {
			each.age = max(now.Sub(*at), 0)
		}
		view.Events = append(view.Events, each)
	}
	view.State = view.stateText()
	return view
}

// stateText returns the most severe state of the GPU.
func (v *hardwareView) stateText() string {
	switch {
	case v.Lost != "":
		return "lost"
	case v.MIG != nil && *v.MIG:
		return "MIG"
	case v.ComputeMode != "" && v.ComputeMode != "Default":
		return v.ComputeMode
	}
	for _, e := range slices.Backward(v.Events) {
		if !e.ProgramFault {
			return fmt.Sprintf("Xid %d", e.Xid)
		}
	}
	return "ok"
}

// cudaText formats 12040 as 12.4.
func cudaText(version uint32) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// programOf returns a program's view; texts that the program chose are made printable.
func programOf(program *api.Program, now time.Time) programView {
	description := program.GetDescription()
	progress := description.GetProgress()
	started := time.UnixMilli(program.GetStartedUnixMilliseconds())
	view := programView{
		PID: program.GetPid(), RootPID: rootOf(program), Session: program.GetSession(), Job: humanize.Printable(description.GetJobName()),
		User: program.GetUser(), UID: program.GetUid(), Command: humanize.Printable(program.GetCommand()),
		State: stateOf(program), GPUs: []uint32{},
		CallsMade: progress.GetCallsMade(), CallsCompleted: progress.GetCallsCompleted(),
		CallsAwaited: progress.GetCallsAwaited(),
		Kernels:      list(progress.GetKernels()), KernelNames: kernelNames(progress.GetKernels()),
		Started: started, WorkerPID: program.GetWorkerPid(),
		LogPath:      humanize.Printable(description.GetLogPath()),
		JobFileError: humanize.Printable(description.GetJobFileError()),
		PinnedBytes:  progress.GetPinnedBytes(), Fault: humanize.Printable(progress.GetFault()),
		age: now.Sub(started),
	}
	if failure := program.GetFailure(); failure != "" {
		view.Fault = humanize.Printable(failure)
	}
	for _, memory := range progress.GetMemory() {
		if memory.GetBytes() > 0 {
			view.GPUs = append(view.GPUs, memory.GetGpu())
			view.MemoryBytes += memory.GetBytes()
		}
	}
	if progress.GetPendingMilliseconds() > 0 || progress.GetPendingCall() != "" {
		view.Pending = &pendingView{
			humanize.Printable(progress.GetPendingCall()),
			progress.GetPendingStream(),
			progress.GetPendingMilliseconds(),
		}
	}
	if size := description.GetWorldSize(); size > 0 {
		rank := description.GetRank()
		view.Rank, view.WorldSize = &rank, &size
	}
	view.Checkpoint = checkpointOf(program, now)
	view.LastCheckpoint = optionalTime(program.GetLastCheckpointUnixMilliseconds())
	return view
}

// rootOf returns the root's pid; an older phosd does not report it.
func rootOf(program *api.Program) uint32 {
	if root := program.GetRootPid(); root != 0 {
		return root
	}
	return program.GetPid()
}

// checkpointOf returns the state, times, last error and policy of a program's checkpoints.
func checkpointOf(program *api.Program, now time.Time) checkpointView {
	view := checkpointView{
		Dir:     humanize.Printable(program.GetCheckpointDir()),
		Running: program.GetCheckpointRunning(),
		Error:   humanize.Printable(program.GetCheckpointError()),
		Failed:  optionalTime(program.GetCheckpointFailedUnixMilliseconds()),
		Next:    optionalTime(program.GetNextCheckpointUnixMilliseconds()),
	}
	if last := optionalTime(program.GetLastCheckpointUnixMilliseconds()); last != nil {
		view.age = max(now.Sub(*last), 0)
		seconds, generation := int64(view.age.Seconds()), program.GetCheckpointGeneration()
		view.AgeSeconds, view.Generation = &seconds, &generation
	}
	if view.Next != nil {
		view.untilNext = view.Next.Sub(now)
	}
	if view.Failed != nil {
		view.sinceFailed = now.Sub(*view.Failed)
	}
	if policy := program.GetPolicy(); policy != nil {
		view.Policy = &policyView{
			Dir:          humanize.Printable(policy.GetDir()),
			EverySeconds: float64(policy.GetEveryMilliseconds()) / 1000, Keep: policy.GetKeep(),
			BandwidthBytes: policy.GetBandwidthBytes(), On: list(policy.GetOn()), RestoreOnBoot: policy.GetRestoreOnBoot(),
		}
	}
	return view
}

// optionalTime returns nil for 0.
func optionalTime(milliseconds int64) *time.Time {
	if milliseconds == 0 {
		return nil
	}
	at := time.UnixMilli(milliseconds)
	return &at
}

// stateOf returns failed, unresponsive (its worker sent no description), starting or running.
func stateOf(program *api.Program) string {
	description := program.GetDescription()
	switch {
	case program.GetFailure() != "":
		return "failed"
	case description == nil:
		return "unresponsive"
	case !description.GetLive():
		return "starting"
	case description.GetProgress().GetFault() != "":
		return "failed"
	}
	return "running"
}

// kernelNames returns the names of symbols, as of humanize.Kernel.
func kernelNames(symbols []string) []string {
	names := list(symbols)
	for i, symbol := range names {
		names[i] = humanize.Kernel(symbol)
	}
	return names
}

// list returns printable texts; it is never null in JSON.
func list(texts []string) []string {
	cleaned := make([]string, len(texts))
	for i, text := range texts {
		cleaned[i] = humanize.Printable(text)
	}
	return cleaned
}
