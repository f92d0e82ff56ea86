package clusterfudge

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// gpuPrefix begins the names of the fields that count GPUs of one model.
const gpuPrefix = "gpu_"

// model is a GPU model of the wire.
type model struct {
	// name is how launches ask for it: a100-40gb.
	name string
	// count is its field in Resources, and statuses that in ClusterResources.
	count, statuses protoreflect.FieldDescriptor
}

// models are all models of the wire, in the order of their fields.
var models = readModels()

// readModels reads the models from the fields of the messages.
func readModels() (found []model) {
	statuses := (&wire.ClusterResources{}).ProtoReflect().Descriptor().Fields()
	fields := (&wire.Resources{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if name, isGPU := strings.CutPrefix(string(field.Name()), gpuPrefix); isGPU {
			found = append(found, model{
				name:  strings.ReplaceAll(name, "_", "-"),
				count: field, statuses: statuses.ByName(field.Name()),
			})
		}
	}
	return found
}

// modelOf returns the model of a GPU that its driver calls name; nil: the wire has none for it.
func modelOf(name string) *model {
	for i := range models {
		if launch.IsModel(models[i].name, name) {
			return &models[i]
		}
	}
	return nil
}

// of returns how many GPUs of a model resources have.
func (m *model) of(r *wire.Resources) int {
	return int(r.ProtoReflect().Get(m.count).Int())
}

// add adds GPUs of a model to resources.
func (m *model) add(r *wire.Resources, n int) {
	r.ProtoReflect().Set(m.count, protoreflect.ValueOfInt32(clamp(uint64(m.of(r)+n))))
}

// statusesOf returns the counts of a model in a cluster or shard, which are made if they are
// missing.
func (m *model) statusesOf(c *wire.ClusterResources) *wire.ResourceStatuses {
	return c.ProtoReflect().Mutable(m.statuses).Message().Interface().(*wire.ResourceStatuses)
}
