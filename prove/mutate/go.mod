module github.com/sashlimit/sash/prove/mutate

go 1.26.0
