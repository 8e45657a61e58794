module github.com/sashlimit/sash/extra/grafana

go 1.26.0

replace (
	github.com/sashlimit/sash => ../..
	github.com/sashlimit/sash/extra/sashprom => ../sashprom
)
