module github.com/sashlimit/sash

go 1.26
