#!/bin/sh
# What Spark runs in its pods: the first argument says whether this one is the driver or an executor, and the variables
# SPARK_… are those that Spark's scheduler for Kubernetes sets. Any other command is run as it is.
set -eu

# Tini is not there outside of the image.
run=exec
if command -v tini >/dev/null; then run="exec tini -s --"; fi

# Java options of an executor are SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …, each of which may have blanks.
executor() {
    set --
    number=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$number:-}\" ]"; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
        number=$((number + 1))
    done
    java=java
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
    $run "$java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_EXTRA_CLASSPATH:-}:$SPARK_HOME/jars/*:$PWD" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
}

case ${1:-} in
driver)
    shift
    $run "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor) executor ;;
*) $run "$@" ;;
esac
