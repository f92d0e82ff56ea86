//go:build counted

package nesting

import "github.com/phos-gpu/phos/cgo/cudadrv"

func init() { beforeExit = cudadrv.WriteCounts }
