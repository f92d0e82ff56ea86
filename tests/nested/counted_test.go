//go:build counted

package nested

import "github.com/phos-gpu/phos/cgo/cudadrv"

func init() { beforeExit = cudadrv.WriteCounts }
