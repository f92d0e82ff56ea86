package launch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/daemon/api"
)

// visibleVariable selects the GPUs that a program sees.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// Ordinals returns the numbers of the GPUs in a list, which may have UUIDs; nil for an empty list.
func Ordinals(ctx context.Context, client *api.Client, list string) (ordinals []uint32, err error) {
	if list == "" {
		return nil, nil
	}
	status, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		return nil, api.FromStatus(err)
	}
	chosen, err := findGPUs(list, status.GetGpus())
	for _, gpu := range chosen {
		ordinals = append(ordinals, gpu.GetIndex())
	}
	return ordinals, err
}

// chooseGPUs returns the value of CUDA_VISIBLE_DEVICES for a list of GPUs. The driver ignores what
// follows an unknown GPU; this refuses it.
func chooseGPUs(list string, served []*api.GPU) (string, error) {
	chosen, err := findGPUs(list, served)
	if err != nil {
		return "", err
	}
	values := strings.Split(list, ",")
	for i, word := range values {
		values[i] = strings.TrimSpace(word)
		if strings.HasPrefix(values[i], "GPU-") {
			values[i] = chosen[i].GetUuid()
		}
	}
	return strings.Join(values, ","), nil
}

// findGPUs finds the GPUs of a list of numbers and UUIDs among those that phosd serves.
func findGPUs(list string, served []*api.GPU) (chosen []*api.GPU, err error) {
	for word := range strings.SplitSeq(list, ",") {
		gpu, err := findGPU(strings.TrimSpace(word), served)
		if err != nil {
			return nil, err
		}
		if slices.Contains(chosen, gpu) {
			return nil, fmt.Errorf("--gpus %s: GPU %d is named twice", list, gpu.GetIndex())
		}
		chosen = append(chosen, gpu)
	}
	return chosen, nil
}

// findGPU returns the GPU with a number, or the only one whose UUID begins with a text.
func findGPU(word string, served []*api.GPU) (found *api.GPU, err error) {
	number, err := strconv.ParseUint(word, 10, 32)
	byNumber := err == nil
	if !byNumber && !strings.HasPrefix(word, "GPU-") {
		return nil, fmt.Errorf("--gpus takes numbers or UUIDs (GPU-...), separated by commas, not %q", word)
	}
	for _, gpu := range served {
		if byNumber && uint64(gpu.GetIndex()) == number || !byNumber && strings.HasPrefix(gpu.GetUuid(), word) {
			if found != nil {
				return nil, fmt.Errorf("--gpus: several UUIDs begin with %s", word)
			}
			found = gpu
		}
	}
	if found == nil {
		return nil, fmt.Errorf(
			"phosd serves no GPU %s; it serves %s (pos_cli --status lists them)",
			word,
			servedText(served),
		)
	}
	return found, nil
}

// servedText returns the numbers of GPUs: "GPU 0", "GPUs 0 to 3".
func servedText(served []*api.GPU) string {
	switch len(served) {
	case 0:
		return "none"
	case 1:
		return fmt.Sprintf("GPU %d", served[0].GetIndex())
	}
	return fmt.Sprintf("GPUs %d to %d", served[0].GetIndex(), served[len(served)-1].GetIndex())
}

// gpuText says in words what a program gets: "2 software GPUs", "1 GPU (NVIDIA H200)".
func gpuText(reply *api.StatusReply, visible string, limited bool) string {
	served := reply.GetGpus()
	kind, names := "GPU", ""
	if strings.HasPrefix(reply.GetDaemon().GetGpus(), "soft") {
		kind = "software GPU"
	} else if len(served) > 0 {
		names = " (" + humanize.Printable(served[0].GetName()) + ")"
	}
	switch {
	case limited && visible == "":
		return fmt.Sprintf("no GPU of %d (%s is empty)", len(served), visibleVariable)
	case limited:
		return fmt.Sprintf("%s %s of %d%s", plural(kind, visible), humanize.Printable(visible), len(served), names)
	case len(served) == 1:
		return "1 " + kind + names
	}
	return fmt.Sprintf("%d %ss%s", len(served), kind, names)
}

// plural returns the noun for a list of GPUs.
func plural(kind, list string) string {
	if strings.Contains(list, ",") {
		return kind + "s"
	}
	return kind
}
