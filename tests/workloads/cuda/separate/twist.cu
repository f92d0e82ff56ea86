// The other half of main.cu, compiled separately.
__device__ int scale = 3;

__device__ int twist(int x)
{
	return x * scale + 1;
}
